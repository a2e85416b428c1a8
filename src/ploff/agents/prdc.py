r"""PRDC (Ran et al., 2023): TD3 whose actor is held to the logged action nearest to its own, wherever it was taken.

    actor:  min mean |π(s) − â|² − α Q(s, π(s)) / |Q|,   (ŝ, â) = argmin over candidates of β²‖s − ŝ‖² + ‖π(s) − â‖²

The candidates are the pairs of the log's table of neighbors: the k states nearest to s. PRDC searches the whole log
with a kd-tree at every step; docs/explanation/methods.md tells how they differ.

Shapes: B rows, k neighbors, S observation, A action.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.dataset import DistanceStats, OfflineDataset
from ploff.agents.td3 import CriticStep, Info, TD3Config, TD3State
from ploff.neighbors import Euclidean
from ploff.networks import Activation
from ploff.transitions import RewardScale
from ploff.utils.config import check_not_negative
from ploff.utils.errors import PloffError


@dataclasses.dataclass(frozen=True, kw_only=True)
class PRDCConfig(TD3Config):
    """As published for locomotion: α = 2.5, β = 2, the one nearest neighbor."""

    activation: Activation = "relu"
    reward_scale: RewardScale = "none"
    alpha: float = 2.5  # α: weight of the normalized value
    beta: float = 2.0  # β: weight of a state against an action in the distance

    def __post_init__(self):
        super().__post_init__()
        check_not_negative(self, "alpha", "beta")


def nearest_action(
    dataset: OfflineDataset,
    rows: Int[Array, "B"],
    observations: Float[Array, "B S"],
    unit_actions: Float[Array, "B A"],
    config: PRDCConfig,
) -> Float[Array, "B A"]:
    """The nearest pair's action, in units of half its range."""
    distance = l2_distances(dataset).data_distance
    states, actions = jnp.split(distance.pairs[distance.neighbors[rows]], [observations.shape[-1]], axis=-1)
    units = dataset.data.action_space.to_unit(actions)
    squared = config.beta**2 * jnp.sum(jnp.square(states - observations[:, None]), axis=-1)
    squared = squared + jnp.sum(jnp.square(units - unit_actions[:, None]), axis=-1)
    best = jnp.argmin(squared, axis=-1, keepdims=True)
    return jnp.take_along_axis(units, best[..., None], axis=1)[:, 0]


def l2_distances(dataset: OfflineDataset) -> DistanceStats:
    """The dataset's distances, which must be in plain L2."""
    if dataset.distances is None or not isinstance(dataset.distances.data_distance.metric, Euclidean):
        raise PloffError("prdc measures in plain L2; its dataset needs the neighbors under ploff.neighbors.Euclidean")
    return dataset.distances


init, policy = td3.init, td3.policy


def update(state: TD3State, dataset: OfflineDataset, key: PRNGKeyArray, config: PRDCConfig) -> tuple[TD3State, Info]:
    """One step of TD3 whose actor also imitates the nearest logged action."""
    space = dataset.data.action_space

    def actor_loss(step: CriticStep, actions: Array, q: Array, q_grad: Array) -> tuple[Array, Info]:
        unit = space.to_unit(actions)
        near = nearest_action(dataset, step.rows, step.batch.observations, jax.lax.stop_gradient(unit), config)
        weight = config.alpha / jnp.mean(jnp.abs(jax.lax.stop_gradient(q)))
        distance = l2_distances(dataset).distance(step.rows, jax.lax.stop_gradient(actions))
        loss = jnp.mean(jnp.square(unit - near)) - weight * jnp.mean(q)
        return loss, {"data_distance": jnp.mean(distance)}

    return td3.update_with(state, dataset, key, config, actor_loss_fn=actor_loss)
