"""Behavioral cloning of discrete actions: cross-entropy with the logged ones."""

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, PRNGKeyArray

from ploff.agents.bc import BCConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete.networks import ActionScores, SoftmaxPolicy, cross_entropy
from ploff.training.train_state import TrainState


class BCState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: TrainState[ActionScores]


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: BCConfig) -> BCState:
    """Draws the actor."""
    actor = ActionScores.init(key, dataset.data.input_shape, dataset.data.action_space.n, config.hidden_layers)
    return BCState(TrainState.init(actor, optax.adam(config.actor_lr)))


def update(
    state: BCState, dataset: OfflineDataset, key: PRNGKeyArray, config: BCConfig
) -> tuple[BCState, dict[str, Array]]:
    """One gradient step on −log π(a|s)."""
    rows, batch = dataset.sample(key, config.batch_size)
    legal = dataset.legal_actions(rows)
    actor, loss, _ = state.actor.apply_gradient(
        optax.adam(config.actor_lr),
        lambda actor: (jnp.mean(cross_entropy(actor(batch.observations), batch.actions, legal)), None),
    )
    return BCState(actor), {"actor_loss": loss}


def policy(state: BCState) -> SoftmaxPolicy:
    """π."""
    return SoftmaxPolicy(state.actor.params)
