r"""ReBRAC (Tarasov et al., 2023): TD3+BC with the penalty in the target, too, and layer normalisation in the critics.

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
from ploff.agents.actor_critic import Activation, Twins
from ploff.agents.log import Log
from ploff.agents.td3 import Seen, TD3Config, TD3Info, TD3State
from ploff.settings import not_negative
from ploff.transitions import RewardScale


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReBRACConfig(TD3Config):
    """As published for locomotion. The paper tunes both weights a dataset; these are hopper-medium-expert's."""

    batch: int = 1024
    hidden: tuple[int, ...] = (256, 256, 256)
    activation: Activation = "relu"
    rewards: RewardScale = "own"
    layer_norm: bool = True
    actor_rate: float = 1e-3
    critic_rate: float = 1e-3
    actor_weight: float = 0.1  # β₁
    critic_weight: float = 0.01  # β₂

    def __post_init__(self):
        super().__post_init__()
        not_negative(self, "actor_weight", "critic_weight")


init, act = td3.init, td3.act


def update(state: TD3State, log: Log, key: PRNGKeyArray, config: ReBRACConfig) -> tuple[TD3State, TD3Info]:
    """One step of TD3 with both penalties."""
    space = log.data.action_space

    def objective(seen: Seen, actions: Array, value: Array, slope: Array) -> tuple[Array, Array]:
        size = jnp.mean(jnp.abs(jax.lax.stop_gradient(value)))
        penalty = jnp.mean(square_apart(space, actions, seen.batch.actions))
        return config.actor_weight * penalty - jnp.mean(value) / size, jnp.zeros(())

    def backup(value: Array, successors: Array, actions: Array) -> Array:
        logged, known = log.logged_actions(successors)
        penalty = jnp.where(known, square_apart(space, actions, logged), 0.0)
        return config.discount * (value - config.critic_weight * penalty)

    return td3.step(state, log, key, config, backup, objective, Twins.least)


def square_apart(
    space: ActionSpace, actions: Float[Array, "B A"], others: Float[Array, "B A"]
) -> Float[Array, "B"]:
    """The square distance of two actions, in units of half their range."""
    return jnp.sum(jnp.square(space.to_unit(actions) - space.to_unit(others)), axis=-1)
