"""A process of two states whose returns are known, logged by chance; and what it is judged by."""

import numpy as np

from ploff.actions import ActionSpace
from ploff.judging.fqe import FQEConfig
from ploff.judging.judged_log import JudgedLog
from ploff.transitions import Transitions

LENGTH = 5
FAST = FQEConfig(num_networks=2, hidden_sizes=(32,), batch_size=64, steps=500, tau=0.1, lr=5e-3, discount=0.9)
BOX = ActionSpace.box([-1.0], [1.0])


def two_states(episodes: int = 40, seed: int = 0, share: float = 0.5, stuck: bool = False) -> Transitions:
    """+1 leads to state 1, −1 to state 0; a step in state 1 pays 1. Episodes begin in state 0, 5 steps each.

    Args:
      episodes: how many.
      seed: of the actions.
      share: how often the action is +1.
      stuck: a biased log: in state 1 the action is always −1.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(episodes):
        state = 0
        for step in range(LENGTH):
            up = rng.random() < share and not (stuck and state == 1)
            rows.append((state, 1.0 if up else -1.0, float(state), step == LENGTH - 1, int(up)))
            state = int(up)
    state, action, reward, cut, following = map(np.asarray, zip(*rows, strict=True))
    return Transitions.from_rows(
        observations=state[:, None].astype(np.float32),
        actions=action[:, None].astype(np.float32),
        rewards=reward.astype(np.float32),
        terminals=np.zeros(len(rows), bool),
        timeouts=cut.astype(bool),
        next_observations=following[:, None].astype(np.float32),
        action_space=BOX,
    )


def always(value: float):
    """A policy of one action."""
    return lambda observations: np.full((len(observations), 1), value, np.float32)


def judged_log(**changes) -> JudgedLog:
    """The log, to be judged on all of its episodes."""
    return JudgedLog.of(two_states(**changes))
