"""TD3+BC (Fujimoto and Gu, 2021): TD3 whose actor also imitates the logged action."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.actor_critic import Activation
from ploff.agents.log import Log
from ploff.agents.td3 import Seen, TD3Config, TD3Info, TD3State
from ploff.settings import not_negative
from ploff.transitions import RewardScale


@dataclasses.dataclass(frozen=True, kw_only=True)
class TD3BCConfig(TD3Config):
    """As published: α = 2.5 on standardised observations."""

    activation: Activation = "relu"
    rewards: RewardScale = "own"
    value_weight: float = 2.5  # α: of the normalised value against imitation

    def __post_init__(self):
        super().__post_init__()
        not_negative(self, "value_weight")


init, act = td3.init, td3.act


def update(state: TD3State, log: Log, key: PRNGKeyArray, config: TD3BCConfig) -> tuple[TD3State, TD3Info]:
    """One step of TD3 with the actor's loss −λ Q + |π(s) − a|², λ = α / mean|Q|."""
    space = log.data.action_space

    def objective(seen: Seen, actions: Array, value: Array, slope: Array) -> tuple[Array, Array]:
        apart = jnp.mean(jnp.square(space.to_unit(actions) - space.to_unit(seen.batch.actions)))
        weight = config.value_weight / jnp.mean(jnp.abs(jax.lax.stop_gradient(value)))
        return apart - weight * jnp.mean(value), jnp.zeros(())

    return td3.step(state, log, key, config, objective=objective)
