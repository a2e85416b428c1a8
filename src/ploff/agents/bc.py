"""Behavioural cloning: the actor alone, regressed on the logged actions."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.agents.actor_critic import Actor
from ploff.agents.log import Log
from ploff.agents.settings import NetworkConfig
from ploff.settings import positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class BCConfig(NetworkConfig):
    """The actor's widths and the optimiser are those of TD3."""

    actor_rate: float = 3e-4

    def __post_init__(self):
        super().__post_init__()
        positive(self, "actor_rate")


class BCState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: Actor
    actor_optimiser: optax.OptState


class BCInfo(NamedTuple):
    """What an update saw."""

    actor_loss: Array


def init(key: PRNGKeyArray, log: Log, config: BCConfig) -> BCState:
    """A fresh actor."""
    actor = Actor.init(key, log.data.observation_shape, log.data.action_space, config.layers)
    return BCState(actor, optax.adam(config.actor_rate).init(eqx.filter(actor, eqx.is_array)))


def update(state: BCState, log: Log, key: PRNGKeyArray, config: BCConfig) -> tuple[BCState, BCInfo]:
    """One gradient step on mean |π(s) − a|², in units of half an action's range."""
    _, batch = log.draw(key, config.batch)
    loss, gradient = eqx.filter_value_and_grad(imitation)(state.actor, batch.observations, batch.actions)
    changes, optimiser = optax.adam(config.actor_rate).update(gradient, state.actor_optimiser)
    return BCState(eqx.apply_updates(state.actor, changes), optimiser), BCInfo(loss)


def imitation(
    actor: Actor, observations: Float[Array, "B *S"], actions: Float[Array, "B A"]
) -> Float[Array, ""]:
    """The mean square between the policy's actions and the logged ones."""
    return jnp.mean(jnp.square(actor.space.to_unit(actor(observations)) - actor.space.to_unit(actions)))


def act(state: BCState, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
    """The policy's actions."""
    return state.actor(observations)
