"""TD3+BC (Fujimoto and Gu, 2021): TD3 whose actor also imitates the logged action."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.dataset import OfflineDataset
from ploff.agents.td3 import CriticStep, Info, TD3Config, TD3State
from ploff.networks import Activation
from ploff.transitions import RewardScale
from ploff.utils.config import check_not_negative


@dataclasses.dataclass(frozen=True, kw_only=True)
class TD3BCConfig(TD3Config):
    """As published: α = 2.5 on normalized observations."""

    activation: Activation = "relu"
    reward_scale: RewardScale = "none"
    alpha: float = 2.5  # α: weight of the normalized value against imitation

    def __post_init__(self):
        super().__post_init__()
        check_not_negative(self, "alpha")


init, policy = td3.init, td3.policy


def update(state: TD3State, dataset: OfflineDataset, key: PRNGKeyArray, config: TD3BCConfig) -> tuple[TD3State, Info]:
    """One step of TD3 with the actor's loss −λ Q + |π(s) − a|², λ = α / mean|Q|."""
    space = dataset.data.action_space

    def actor_loss(step: CriticStep, actions: Array, q: Array, q_grad: Array) -> tuple[Array, Info]:
        imitation = jnp.mean(jnp.square(space.to_unit(actions) - space.to_unit(step.batch.actions)))
        weight = config.alpha / jnp.mean(jnp.abs(jax.lax.stop_gradient(q)))
        return imitation - weight * jnp.mean(q), {}

    return td3.update_with(state, dataset, key, config, actor_loss_fn=actor_loss)
