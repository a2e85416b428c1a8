"""Logs with discrete actions, and critics that are tables, for numbers made by hand."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from agent_cases import distance_stats
from ploff import ActionSpace, Transitions, agents
from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete.networks import ActionScores
from ploff.agents.networks import StateValue
from ploff.networks import MLP, Linear
from ploff.training.loop import scan_updates
from ploff.training.train_state import TrainState


def table(values: Any) -> ActionScores:
    """Scores by state, of one-hot states."""
    return ActionScores(_identity(), _linear(values))


def value_table(values: Any) -> StateValue:
    """A value by state."""
    return StateValue(_identity(), _linear(np.asarray(values)[:, None]))


def values_of(scores: ActionScores) -> np.ndarray:
    """What `table` was given."""
    return np.asarray(scores.mlp.layers[0].weight)


def _identity() -> MLP:
    return MLP(layers=(), norms=(), activation="relu", activate_last=True)


def _linear(values: Any) -> MLP:
    return MLP(
        layers=(Linear(jnp.asarray(values, jnp.float32), None),), norms=(), activation="relu", activate_last=False
    )


def step_of(method: Any, state: Any, dataset: OfflineDataset, config: Any) -> tuple[Any, Any]:
    """One update, compiled as a whole."""
    return eqx.filter_jit(method.update)(state, dataset, jax.random.key(0), config)


def trained(values: Any, target: Any = None) -> Any:
    """A table as a learner holds it."""
    made = table(values)
    state = TrainState.init(made, optax.adam(3e-4), with_target=True)
    if target is None:
        return state
    return dataclasses.replace(state, target=table(target))


def one_step(*, terminal: bool = False, mask: Any = None) -> OfflineDataset:
    """In state 0 of two, action 1 of three was taken, paid 0.5, and led to state 1, where action 0 was taken."""
    data = Transitions.from_rows(
        observations=np.eye(2, dtype=np.float32),
        actions=np.asarray([1, 0], np.int32),
        rewards=np.asarray([0.5, 0.0], np.float32),
        terminals=np.asarray([terminal, False]),
        timeouts=np.asarray([False, True]),
        next_observations=np.eye(2, dtype=np.float32)[[1, 0]],
        action_space=ActionSpace.discrete(3),
        infos={} if mask is None else {"action_mask": np.asarray(mask)},
    )
    dataset = OfflineDataset.of(data)
    return dataclasses.replace(dataset, rows=jnp.asarray([0], jnp.int32))  # learned from alone


def bandit_log(count: int = 300, illegal: bool = False, seed: int = 0) -> Transitions:
    """Four states in any order; action s pays 1 in state s, the next one 0.5, others 0; action (s + 1) % 4 is usual."""
    rng = np.random.default_rng(seed)
    states = rng.integers(0, 4, count)
    usual = rng.uniform(size=count) < 0.5
    actions = np.where(usual, (states + 1) % 4, rng.integers(0, 4, count))
    mask = np.ones((count, 4), bool)
    if illegal:  # the best action is never to be had
        mask[np.arange(count), states] = False
        actions = np.where(actions == states, (states + 2) % 4, actions)
    rewards = np.select([actions == states, actions == (states + 1) % 4], [1.0, 0.5], 0.0)
    return Transitions.from_rows(
        observations=np.eye(4, dtype=np.float32)[states],
        actions=actions.astype(np.int32),
        rewards=rewards.astype(np.float32),
        next_observations=np.eye(4, dtype=np.float32)[rng.integers(0, 4, count)],
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % 10 == 9,
        action_space=ActionSpace.discrete(4),
        infos={"action_mask": mask} if illegal else {},
    )


QUICK = {"batch_size": 32, "hidden_sizes": (32,), "discount": 0.5, "tau": 0.05} | {
    f"{name}_lr": 3e-3 for name in ("actor", "critic", "value", "behavior", "bonus")
}


OWN: dict[str, dict[str, Any]] = {  # so that what pays outweighs what is usual
    "discrete-ploff": {"actor_bonus_weight": 0.3},
    "discrete-ploff-l2": {"actor_bonus_weight": 0.3},
    "discrete-cql": {"cql_alpha": 0.1},
    "discrete-bcq": {"threshold": 0.1},
}


def quick_config(name: str, **changes: Any) -> Any:
    method = agents.get_method(name)
    known = {field.name for field in dataclasses.fields(method.config_type)}
    return method.config(
        **{**{key: value for key, value in QUICK.items() if key in known}, **OWN.get(name, {}), **changes}
    )


def learn(name: str, data: Transitions, config: Any, steps: int) -> tuple[Any, Any]:
    """A learner's state after some steps, and the data in its units."""
    method = agents.get_method(name)
    data = data.with_unit_rewards().with_normalized_observations()
    kind = method.distance
    stats = None if kind == "none" else distance_stats(data, kind, count=min(20, len(data)))
    dataset = OfflineDataset.of(data, stats)
    state = method.init(jax.random.key(0), dataset, config)
    zero = jnp.asarray(0)
    state, _ = scan_updates(method.update_fn(config), state, (dataset,), jax.random.key(1), zero, steps)
    return state, data
