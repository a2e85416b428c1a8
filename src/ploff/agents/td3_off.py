"""TD3-Off: TD3 on a log, and all of PLOff but its bonus (paper, section 5). The difference of the two is the bonus.

The critics are normalized, their targets move faster, and the policy is not the actor itself but a moving average of
it, whose memory is a tenth of the training so far: in long episodes small fluctuations of the last steps decide between
running and falling (Block et al., 2023). `TD3OffConfig.paper()` has none of the three.
"""

import dataclasses
from typing import Any, TypeVar

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ploff.agents import td3
from ploff.agents.dataset import OfflineDataset
from ploff.agents.networks import Actor
from ploff.agents.td3 import Info, TD3Config, TD3State
from ploff.tasks import Family
from ploff.training.train_state import polyak_update
from ploff.utils.config import check_within

Config = TypeVar("Config", bound="TD3OffConfig")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TD3OffConfig(TD3Config):
    """One setting for all tasks; `TD3OffConfig.paper()` is the printed one."""

    layer_norm: bool = True
    tau: float = 0.02
    policy_ema: float = 0.1  # the policy averages actors with a memory of this share of training; 0: the last

    def __post_init__(self):
        super().__post_init__()
        check_within(self, "[0, 1]", "policy_ema")

    @classmethod
    def paper(cls: type[Config], family: Family = "locomotion", **changes: Any) -> Config:
        """As printed; without a bonus, the same for every family of tasks."""
        printed = {"layer_norm": False, "tau": 0.005, "policy_ema": 0.0}
        return cls(**{**printed, **changes})


class TD3OffState(TD3State):
    """TD3's, and the averaged policy."""

    averaged_actor: Actor


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: TD3OffConfig) -> TD3OffState:
    """Draws the networks."""
    state = td3.init(key, dataset, config)
    return TD3OffState(**vars(state), averaged_actor=state.actor.params)


def update(
    state: TD3OffState, dataset: OfflineDataset, key: PRNGKeyArray, config: TD3OffConfig
) -> tuple[TD3OffState, Info]:
    """One step of TD3 on rows of the log."""
    state, info = td3.update_with(state, dataset, key, config)
    return dataclasses.replace(state, averaged_actor=average_actor(state, config)), info


def average_actor(state: TD3OffState, config: TD3OffConfig) -> Actor:
    """The actors' moving average after a step; its memory grows with the number of the actor's steps."""
    if config.policy_ema == 0:
        return state.actor.params
    count = state.step // config.policy_delay
    rate = 1.0 / jnp.maximum(1.0, config.policy_ema * count)
    moves = state.step % config.policy_delay == 0
    return polyak_update(state.averaged_actor, state.actor.params, jnp.where(moves, rate, 0.0))


def policy(state: TD3OffState) -> Actor:
    """The averaged actor."""
    return state.averaged_actor
