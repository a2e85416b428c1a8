r"""ReBRAC (Tarasov et al., 2023): TD3+BC with the penalty in the target, too, and layer normalization in the critics.

    actor:   min mean [ β₁ ‖π(s) − a‖² − Q(s, π(s)) / |Q| ],   Q = min_j Q_j
    critic:  y = r + (1 − terminal) γ (min_j Q̄_j(s', ã) − β₂ ‖π̄(s') − a'‖²),   a' the action logged at s'

Where the log was cut after s', it has no a', and nothing is subtracted.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents import td3
from ploff.agents.dataset import OfflineDataset
from ploff.agents.networks import DoubleCritic
from ploff.agents.td3 import CriticStep, Info, TD3Config, TD3State
from ploff.networks import Activation
from ploff.transitions import RewardScale
from ploff.utils.config import check_not_negative


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReBRACConfig(TD3Config):
    """As published for locomotion. The paper tunes both weights for each dataset; these are hopper-medium-expert's."""

    batch_size: int = 1024
    hidden_sizes: tuple[int, ...] = (256, 256, 256)
    activation: Activation = "relu"
    reward_scale: RewardScale = "none"
    layer_norm: bool = True
    actor_lr: float = 1e-3
    critic_lr: float = 1e-3
    actor_bc_weight: float = 0.1  # β₁
    critic_bc_weight: float = 0.01  # β₂

    def __post_init__(self):
        super().__post_init__()
        check_not_negative(self, "actor_bc_weight", "critic_bc_weight")


def squared_distance(
    space: ActionSpace, actions: Float[Array, "B A"], others: Float[Array, "B A"]
) -> Float[Array, "B"]:
    """‖a₁ − a₂‖², in units of half an action's range."""
    return jnp.sum(jnp.square(space.to_unit(actions) - space.to_unit(others)), axis=-1)


init, policy = td3.init, td3.policy


def update(state: TD3State, dataset: OfflineDataset, key: PRNGKeyArray, config: ReBRACConfig) -> tuple[TD3State, Info]:
    """One step of TD3 with both penalties."""
    space = dataset.data.action_space

    def actor_loss(step: CriticStep, actions: Array, q: Array, q_grad: Array) -> tuple[Array, Info]:
        size = jnp.mean(jnp.abs(jax.lax.stop_gradient(q)))
        penalty = jnp.mean(squared_distance(space, actions, step.batch.actions))
        return config.actor_bc_weight * penalty - jnp.mean(q) / size, {}

    def next_value(value: Array, next_states: Array, actions: Array) -> Array:
        logged, known = dataset.logged_actions(next_states)
        penalty = jnp.where(known, squared_distance(space, actions, logged), 0.0)
        return config.discount * (value - config.critic_bc_weight * penalty)

    return td3.update_with(
        state, dataset, key, config, next_value_fn=next_value, actor_loss_fn=actor_loss, q_fn=DoubleCritic.min
    )
