"""Small logs and metrics that the tests of metric learning share."""

import numpy as np

from ploff import ActionSpace, Transitions
from ploff.pseudometric import MetricConfig

SMALL = MetricConfig(hidden=32, embedding=8, rows=16, actions=3)


def random_log(
    episodes: int = 12, length: int = 25, states: int = 4, actions: int = 2, seed: int = 0
) -> Transitions:
    """A smooth random system with a reward, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    drift = 0.9 * np.linalg.qr(rng.normal(size=(states, states)))[0]
    push = rng.normal(size=(actions, states))
    rows = {
        name: []
        for name in ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
    }
    for _ in range(episodes):
        state = rng.normal(size=states)
        for step in range(length):
            action = rng.uniform(-1, 1, actions)
            following = state @ drift + 0.3 * action @ push
            values = (state, action, state[0] - 0.1 * action @ action, False, step == length - 1, following)
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
            state = following
    arrays = {
        name: np.asarray(values, bool if name in ("terminals", "timeouts") else np.float32)
        for name, values in rows.items()
    }
    return Transitions.from_rows(**arrays, action_space=ActionSpace.box(-np.ones(actions), np.ones(actions)))


def discrete_log(count: int = 200, choices: int = 3, seed: int = 0) -> Transitions:
    """One-hot states, numbered actions, unequal counts of each."""
    rng = np.random.default_rng(seed)
    return Transitions.from_rows(
        observations=np.eye(5, dtype=np.float32)[rng.integers(0, 5, count)],
        next_observations=np.eye(5, dtype=np.float32)[rng.integers(0, 5, count)],
        actions=rng.choice(choices, count, p=[0.6, 0.3, 0.1]).astype(np.int32),
        rewards=rng.uniform(size=count).astype(np.float32),
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % 20 == 19,
        action_space=ActionSpace.discrete(choices),
    )
