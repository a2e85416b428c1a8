"""A task with a known optimum, its log, and small settings that the tests of the agents share."""

import dataclasses
import functools
import pathlib
import tempfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metric_cases import SMALL
from ploff import ActionSpace, Transitions, agents, metric_learning, neighbors
from ploff.agents.log import Evidence, Log
from ploff.training import scan_updates
from ploff.transitions import RewardScale

SPACE = ActionSpace.box([-2.0, 0.0], [2.0, 1.0])  # two ranges, one of them off centre

# Tiny networks and quick learning. What a method has no field for is left out.
TINY: dict[str, Any] = {
    "batch": 32,
    "hidden": (32,),
    "critic_hidden": (32,),
    "vae_hidden": (32,),
    "behaviour_hidden": (32,),
    "discount": 0.5,
    "actor_rate": 3e-3,
    "critic_rate": 3e-3,
    "value_rate": 3e-3,
    "vae_rate": 3e-3,
    "behaviour_rate": 3e-3,
    "clone_rate": 3e-3,
    "multiplier_rate": 0.03,
    "target_rate": 0.05,
    "warmup": 100,
}
OWN: dict[str, dict[str, Any]] = {
    "awr": {"actor_rate": 0.005, "critic_rate": 0.05, "critic_steps": 20, "actor_steps": 60},
    "bear": {"bandwidth": 2.0},
    "iql": {"rewards": "own"},  # returns of a thousand take longer than a test
}


def best(observations: Any) -> Any:
    """The best action, in units of half its range."""
    return 0.6 * observations


def reward(observations: Any, unit: Any) -> Any:
    """1 at the best action, and less by the square of the distance to it."""
    return 1.0 - np.mean(np.square(unit - best(observations)), axis=-1)


def to_box(unit: np.ndarray) -> np.ndarray:
    """Actions in the environment's units."""
    low, high = np.asarray(SPACE.low), np.asarray(SPACE.high)
    return (low + high) / 2 + unit * (high - low) / 2


def to_units(actions: np.ndarray) -> np.ndarray:
    """The inverse of `to_box`."""
    low, high = np.asarray(SPACE.low), np.asarray(SPACE.high)
    return (actions - (low + high) / 2) / ((high - low) / 2)


@functools.cache
def toy_log(episodes: int = 120, everywhere: bool = False, length: int = 10) -> Transitions:
    """What comes next does not depend on the action, so the best action is the one that pays most at once.

    The logged actions lie to one side of the best ones, or everywhere.
    Every second episode ends in a terminal, the rest in timeouts.
    """
    rng = np.random.default_rng(0)
    count = length * episodes
    states = rng.uniform(-1, 1, (count, 2))
    following = np.concatenate([states[1:], states[:1]])
    last = np.arange(count) % length == length - 1
    following[last] = rng.uniform(-1, 1, (episodes, 2))
    unit = np.clip(best(states) + 0.25 + 0.35 * rng.normal(size=states.shape), -1, 1)
    if everywhere:
        unit = rng.uniform(-1, 1, states.shape)
    ended = np.arange(count) // length % 2 == 0
    return Transitions.from_rows(
        observations=states.astype(np.float32),
        actions=to_box(unit).astype(np.float32),
        rewards=reward(states, unit).astype(np.float32),
        next_observations=following.astype(np.float32),
        terminals=last & ended,
        timeouts=last & ~ended,
        action_space=SPACE,
    )


def tiny(name: str, **changes: Any) -> Any:
    """A method's settings, small."""
    method = agents.method(name)
    known = {field.name for field in dataclasses.fields(method.config_type)}
    shared = {key: value for key, value in TINY.items() if key in known}
    return method.config(**{**shared, **OWN.get(name, {}), **changes})


def log_for(name: str, data: Transitions | None = None, rewards: RewardScale | None = None) -> Log:
    """The log with the evidence that the method asks for, and rewards on its scale unless another is named."""
    data = (toy_log() if data is None else data).with_rewards(rewards or method_rewards(name))
    kind = agents.method(name).evidence
    return Log.of(data, None if kind == "none" else evidence(data, kind))


def method_rewards(name: str) -> RewardScale:
    """The scale that a method learns on; any for cloning."""
    return getattr(tiny(name), "rewards", "unit")


def evidence(data: Transitions, kind: str, count: int = 5) -> Evidence:
    """Distances to the data in plain L2, or in a metric that nothing was learned into."""
    metric = neighbors.Euclidean() if kind == "l2" else unlearned_metric()
    source, config = neighbors.Source("metric", "log"), neighbors.SearchConfig(neighbours=count)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "neighbours.table"
        rows = np.array(neighbors.find_neighbours(path, metric, data, source, config, quiet=True).rows)
    logged = neighbors.DataDistance.init(metric, data, rows)
    if count == 1:  # too few to measure the log by
        return Evidence(logged, jnp.ones(()), jnp.ones(()), jnp.ones(()), jnp.zeros(rows.shape, jnp.float16))
    return Evidence.of(logged)


def begin(name: str, log: Log, config: Any) -> Any:
    """A fresh state."""
    return agents.method(name).init(jax.random.key(0), log, config)


def advance(
    name: str, state: Any, log: Log, config: Any, *, steps: int = 1, seed: int = 0, first: int = 0
) -> tuple[Any, Any]:
    """Updates, one by one, so that each configuration is compiled once; the last one's info comes with the state."""
    update, key = agents.method(name).update(config), jax.random.key(seed)
    for number in range(first, first + steps):
        state, infos = scan_updates(update, state, (log,), key, jnp.asarray(number), 1)
    return state, jax.tree.map(lambda values: values[0], infos)


KEY = jax.random.fold_in(jax.random.key(0), 0)  # what the first update draws from


@functools.cache
def unlearned_metric() -> Any:
    """Networks as they start."""
    return metric_learning.init(jax.random.key(0), toy_log().with_unit_rewards(), SMALL).metric


def same(one: Any, other: Any) -> bool:
    """Whether two trees hold the same numbers, bit for bit."""
    first, second = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(first) == len(second) and all(
        np.shape(x) == np.shape(y) and np.array_equal(x, y) for x, y in zip(first, second, strict=True)
    )
