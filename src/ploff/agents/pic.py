r"""PIC (peer-influenced constraint, 2026): TD3 whose actor is held to the best action that its peers took.

    actor:  min mean |π(s) − a*|² − α Q(s, π(s)) / |Q|,   a* = argmax over a₁ … a_k of min_j Q_j(s, a_i)

The peers are the k states nearest to s in plain L2, the state itself among them, and a_i what was done there. The
critics judge their actions in s, the smaller of both counts.

Shapes: B rows, k neighbors, A action.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.dataset import OfflineDataset
from ploff.agents.networks import DoubleCritic
from ploff.agents.td3 import CriticStep, Info, TD3Config, TD3State
from ploff.networks import Activation
from ploff.transitions import RewardScale
from ploff.utils.config import check_counts, check_not_negative
from ploff.utils.errors import PloffError


@dataclasses.dataclass(frozen=True, kw_only=True)
class PICConfig(TD3Config):
    """TD3+BC's settings, ten peers."""

    activation: Activation = "relu"
    reward_scale: RewardScale = "none"
    alpha: float = 2.5  # α: weight of the normalized value against imitation
    num_neighbors: int = 10  # k: peers, the state itself included

    def __post_init__(self):
        super().__post_init__()
        check_not_negative(self, "alpha")
        check_counts(self, "num_neighbors")


def best_peer_action(
    critics: DoubleCritic, dataset: OfflineDataset, rows: Int[Array, "B"], observations: Array, num_neighbors: int
) -> Float[Array, "B A"]:
    """a*: of the actions that were taken nearby, the one that the more doubtful critic likes best in s."""
    if dataset.distances is None:
        raise PloffError("pic needs neighbors in the log: a dataset with `DistanceStats`")
    near = dataset.distances.data_distance.neighbors[rows, :num_neighbors]
    actions = dataset.data.action_space.encode(jnp.asarray(dataset.data.actions)[near])
    values = critics.min(observations, jnp.swapaxes(actions, 0, 1))
    best = jnp.argmax(values, axis=0)
    return jnp.take_along_axis(actions, best[:, None, None], axis=1)[:, 0]


init, policy = td3.init, td3.policy


def update(state: TD3State, dataset: OfflineDataset, key: PRNGKeyArray, config: PICConfig) -> tuple[TD3State, Info]:
    """One step of TD3 whose actor also imitates the best of its peers' actions."""
    space = dataset.data.action_space
    state, step = td3.update_critics(state, dataset, key, config)
    peer = best_peer_action(state.critics.params, dataset, step.rows, step.batch.observations, config.num_neighbors)

    def actor_loss(step: CriticStep, actions: Array, q: Array, q_grad: Array) -> tuple[Array, Info]:
        imitation = jnp.mean(jnp.square(space.to_unit(actions) - space.to_unit(peer)))
        weight = config.alpha / jnp.mean(jnp.abs(jax.lax.stop_gradient(q)))
        return imitation - weight * jnp.mean(q), {}

    return td3.update_actor(state, step, config, actor_loss)
