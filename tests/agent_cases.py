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
from ploff import ActionSpace, Transitions, agents, neighbors
from ploff.agents.dataset import DistanceStats, OfflineDataset
from ploff.metric import learner
from ploff.training.loop import scan_updates
from ploff.transitions import Batch, RewardScale

SPACE = ActionSpace.box([-2.0, 0.0], [2.0, 1.0])  # two ranges, one of them off center

# Tiny networks and quick learning. What a method has no field for is left out.
TINY: dict[str, Any] = {
    "batch_size": 32,
    "hidden_sizes": (32,),
    "critic_hidden_sizes": (32,),
    "vae_hidden_sizes": (32,),
    "behavior_hidden_sizes": (32,),
    "discount": 0.5,
    "actor_lr": 3e-3,
    "critic_lr": 3e-3,
    "value_lr": 3e-3,
    "vae_lr": 3e-3,
    "behavior_lr": 3e-3,
    "lagrange_lr": 0.03,
    "tau": 0.05,
    "warmup_steps": 100,
}
OWN: dict[str, dict[str, Any]] = {
    "awr": {"actor_lr": 0.005, "critic_lr": 0.05, "critic_steps": 20, "actor_steps": 60},
    "bear": {"mmd_sigma": 2.0},
    "iql": {"reward_scale": "none"},  # returns of a thousand take longer than a test
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


def to_units(actions: Any) -> np.ndarray:
    """The inverse of `to_box`, in double precision."""
    low, high = np.asarray(SPACE.low), np.asarray(SPACE.high)
    return (np.asarray(actions, np.float64) - (low + high) / 2) / ((high - low) / 2)


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
    method = agents.get_method(name)
    known = {field.name for field in dataclasses.fields(method.config_type)}
    shared = {key: value for key, value in TINY.items() if key in known}
    return method.config(**{**shared, **OWN.get(name, {}), **changes})


def dataset_for(name: str, data: Transitions | None = None, reward_scale: RewardScale | None = None) -> OfflineDataset:
    """The log with the distances that the method asks for, and rewards on its scale unless another is named."""
    scale = reward_scale or getattr(tiny(name), "reward_scale", "unit")  # any for cloning
    data = (toy_log() if data is None else data).with_scaled_rewards(scale)
    kind = agents.get_method(name).distance
    return OfflineDataset.of(data, None if kind == "none" else distance_stats(data, kind))


def distance_stats(data: Transitions, kind: str, count: int = 5) -> DistanceStats:
    """Distances to the data in plain L2, or in a metric that nothing was learned into."""
    metric = neighbors.Euclidean() if kind == "l2" else unlearned_metric()
    key, config = neighbors.TableKey("metric", "log"), neighbors.SearchConfig(num_neighbors=count)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "neighbors.table"
        rows = np.array(neighbors.find_neighbors(path, metric, data, key, config, quiet=True).rows)
    distance = neighbors.DataDistance.init(metric, data, rows)
    if count == 1:  # too few to measure the log by
        ones = [jnp.ones(())] * 4
        return DistanceStats(distance, *ones, jnp.zeros(rows.shape, jnp.float16))
    return DistanceStats.of(distance)


def begin(name: str, dataset: OfflineDataset, config: Any) -> Any:
    """A fresh state."""
    return agents.get_method(name).init(jax.random.key(0), dataset, config)


def advance(
    name: str, state: Any, dataset: OfflineDataset, config: Any, *, steps: int = 1, seed: int = 0, first: int = 0
) -> tuple[Any, Any]:
    """Updates, one by one, so that each configuration is compiled once; the last one's info comes with the state."""
    update, key = agents.get_method(name).update_fn(config), jax.random.key(seed)
    for number in range(first, first + steps):
        state, infos = scan_updates(update, state, (dataset,), key, jnp.asarray(number), 1)
    return state, jax.tree.map(lambda values: values[0], infos)


KEY = jax.random.fold_in(jax.random.key(0), 0)  # what the first update draws from
OBSERVATIONS = jax.random.normal(jax.random.key(1), (5, 2))


def td3_batch(dataset: OfflineDataset, config: Any) -> tuple[np.ndarray, Batch]:
    """The rows that the first update of TD3, and of what is made of it, sees."""
    rows, batch = dataset.sample(jax.random.split(KEY)[0], config.batch_size)
    return np.asarray(rows), batch


def slow_target(batch: Batch, next_value: Any, discount: float = 0.5) -> np.ndarray:
    """What critics learn: the reward, and the next value unless the process ended."""
    return np.asarray(batch.rewards) + ~np.asarray(batch.terminals) * discount * np.asarray(next_value)


def slow_critic_loss(critics: Any, batch: Batch, target: np.ndarray) -> Any:
    """The mean squares of both critics, added."""
    return sum(np.mean((np.asarray(q) - target) ** 2) for q in critics(batch.observations, batch.actions))


@functools.cache
def unlearned_metric() -> Any:
    """Networks as they start."""
    return learner.init(jax.random.key(0), toy_log().with_unit_rewards(), SMALL).metric.params


def same(one: Any, other: Any) -> bool:
    """Whether two trees hold the same numbers, bit for bit."""
    first, second = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(first) == len(second) and all(
        np.shape(x) == np.shape(y) and np.array_equal(x, y) for x, y in zip(first, second, strict=True)
    )
