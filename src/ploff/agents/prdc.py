r"""PRDC (Ran et al., 2023): TD3 whose actor is held to the logged action nearest to its own, wherever it was taken.

    actor:  min mean |π(s) − â|² − α Q(s, π(s)) / |Q|,   (ŝ, â) = argmin over candidates of β²‖s − ŝ‖² + ‖π(s) − â‖²

The candidates are the pairs of the log's table of neighbours: the k states nearest to s. PRDC searches the whole log
with a kd-tree at every step; see docs/methods.md for how they differ.

Shapes: B rows, k neighbours, S observation, A action.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.actor_critic import Activation
from ploff.agents.log import Evidence, Log
from ploff.agents.td3 import Seen, TD3Config, TD3Info, TD3State
from ploff.errors import PloffError
from ploff.neighbors import Euclidean
from ploff.settings import not_negative
from ploff.transitions import RewardScale


@dataclasses.dataclass(frozen=True, kw_only=True)
class PRDCConfig(TD3Config):
    """As published for locomotion: α = 2.5, β = 2, the one nearest neighbour."""

    activation: Activation = "relu"
    rewards: RewardScale = "own"
    value_weight: float = 2.5  # α: of the normalised value
    state_weight: float = 2.0  # β: of a state against an action in the distance

    def __post_init__(self):
        super().__post_init__()
        not_negative(self, "value_weight", "state_weight")


init, act = td3.init, td3.act


def update(state: TD3State, log: Log, key: PRNGKeyArray, config: PRDCConfig) -> tuple[TD3State, TD3Info]:
    """One step of TD3 whose actor also imitates the nearest logged action."""
    space = log.data.action_space

    def objective(seen: Seen, actions: Array, value: Array, slope: Array) -> tuple[Array, Array]:
        unit = space.to_unit(actions)
        near = nearest_action(log, seen.rows, seen.batch.observations, jax.lax.stop_gradient(unit), config)
        weight = config.value_weight / jnp.mean(jnp.abs(jax.lax.stop_gradient(value)))
        distance = evidence_of(log).distance(seen.rows, jax.lax.stop_gradient(actions))
        return jnp.mean(jnp.square(unit - near)) - weight * jnp.mean(value), jnp.mean(distance)

    return td3.step(state, log, key, config, objective=objective)


def nearest_action(
    log: Log,
    rows: Int[Array, "B"],
    observations: Float[Array, "B S"],
    unit_actions: Float[Array, "B A"],
    config: PRDCConfig,
) -> Float[Array, "B A"]:
    """The nearest pair's action, in units of half its range."""
    logged = evidence_of(log).logged
    states, actions = jnp.split(logged.pairs[logged.neighbours[rows]], [observations.shape[-1]], axis=-1)
    units = log.data.action_space.to_unit(actions)
    apart = config.state_weight**2 * jnp.sum(jnp.square(states - observations[:, None]), axis=-1)
    apart = apart + jnp.sum(jnp.square(units - unit_actions[:, None]), axis=-1)
    best = jnp.argmin(apart, axis=-1, keepdims=True)
    return jnp.take_along_axis(units, best[..., None], axis=1)[:, 0]


def evidence_of(log: Log) -> Evidence:
    """The log's evidence, which must be in plain L2."""
    if log.evidence is None or not isinstance(log.evidence.logged.metric, Euclidean):
        raise PloffError(
            "prdc measures in plain L2; its log needs the neighbours under ploff.neighbors.Euclidean"
        )
    return log.evidence
