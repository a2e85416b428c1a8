"""Behavioral cloning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import SPACE, advance, begin, dataset_for, same, tiny, to_units
from ploff.agents.bc import imitation_loss
from ploff.agents.networks import Actor, HiddenLayers


def test_the_imitation_loss_is_the_mean_square_in_units_of_half_a_range():
    actor = Actor.init(jax.random.key(0), (2,), SPACE, HiddenLayers((4,)))
    observations, actions = jnp.asarray([[0.1, -0.2], [0.5, 0.3]]), jnp.asarray([[1.0, 0.25], [-2.0, 1.0]])
    taken, logged = to_units(np.asarray(actor(observations))), to_units(np.asarray(actions))
    expected = np.mean((taken - logged) ** 2)
    assert float(imitation_loss(actor, observations, actions)) == pytest.approx(expected, rel=1e-5)


def test_an_update_moves_the_actor_down_the_loss_of_its_batch():
    dataset, config = dataset_for("bc"), tiny("bc")
    state = begin("bc", dataset, config)
    moved, info = advance("bc", state, dataset, config)
    assert not same(state.actor.params, moved.actor.params)
    _, batch = dataset.sample(jax.random.fold_in(jax.random.key(0), 0), config.batch_size)
    before = imitation_loss(state.actor.params, batch.observations, batch.actions)
    assert float(info["actor_loss"]) == pytest.approx(float(before), rel=1e-5)
    assert imitation_loss(moved.actor.params, batch.observations, batch.actions) < before
