"""Small logs and metrics that the tests of metric learning share."""

import dataclasses

import jax
import numpy as np

from ploff import ActionSpace, Transitions
from ploff.metric import learner
from ploff.metric.learner import MetricState
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining, in_training_units

SMALL = MetricConfig(hidden_sizes=(32,), embedding_size=8, batch_size=16, num_next_actions=3)
QUICK = MetricTraining(steps=40, scan_length=10, check_every=20, early_stopping=False, validation_fraction=0.2)


def started(
    config: MetricConfig = SMALL, data: Transitions | None = None, seed: int = 0
) -> tuple[MetricState, Transitions]:
    """The state before the first update, and the log in the units to be trained in, on the device."""
    data = in_training_units(random_log() if data is None else data, config).to_device()
    return learner.init(jax.random.key(seed), data, config), data


def random_log(episodes: int = 12, length: int = 25, states: int = 4, actions: int = 2, seed: int = 0) -> Transitions:
    """A smooth random system with a reward, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    drift = 0.9 * np.linalg.qr(rng.normal(size=(states, states)))[0]
    push = rng.normal(size=(actions, states))
    rows = {name: [] for name in ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")}
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


def ending_log() -> Transitions:
    """The random system, every second episode of which ends by itself."""
    data = random_log()
    ends = data.episode_ends()[::2]
    terminals, timeouts = np.array(data.terminals), np.array(data.timeouts)
    terminals[ends], timeouts[ends] = True, False
    return dataclasses.replace(data, terminals=terminals, timeouts=timeouts)


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
