"""Behavioral cloning: the actor alone, regressed on the logged actions."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.agents.config import NetworkConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.networks import Actor
from ploff.training.train_state import TrainState
from ploff.utils.config import check_positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class BCConfig(NetworkConfig):
    """The actor's sizes and the optimizer are those of TD3."""

    actor_lr: float = 3e-4

    def __post_init__(self):
        super().__post_init__()
        check_positive(self, "actor_lr")


class BCState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: TrainState[Actor]


def imitation_loss(actor: Actor, observations: Float[Array, "B *S"], actions: Float[Array, "B A"]) -> Float[Array, ""]:
    """Mean |π(s) − a|², in units of half an action's range."""
    return jnp.mean(jnp.square(actor.space.to_unit(actor(observations)) - actor.space.to_unit(actions)))


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: BCConfig) -> BCState:
    """Draws the actor."""
    data = dataset.data
    actor = Actor.init(key, data.input_shape, data.action_space, config.hidden_layers)
    return BCState(TrainState.init(actor, optax.adam(config.actor_lr)))


def update(
    state: BCState, dataset: OfflineDataset, key: PRNGKeyArray, config: BCConfig
) -> tuple[BCState, dict[str, Array]]:
    """One gradient step on the imitation loss."""
    _, batch = dataset.sample(key, config.batch_size)
    actor, loss, _ = state.actor.apply_gradient(
        optax.adam(config.actor_lr), lambda actor: (imitation_loss(actor, batch.observations, batch.actions), None)
    )
    return BCState(actor), {"actor_loss": loss}


def policy(state: BCState) -> Actor:
    """π."""
    return state.actor.params
