"""The networks of the agents."""

import jax
import jax.numpy as jnp
import numpy as np

from ploff.actions import ActionSpace
from ploff.agents.networks import Actor, HiddenLayers


def test_actors_stay_in_their_box_and_critics_see_it_as_a_unit_box():
    space = ActionSpace.box([0.0, -10.0], [1.0, 30.0])
    actor = Actor.init(jax.random.key(0), (3,), space, HiddenLayers((8, 8)))
    actions = actor(100.0 * jax.random.normal(jax.random.key(1), (50, 3)))
    assert np.all(actions >= jnp.asarray([0.0, -10.0]))
    assert np.all(actions <= jnp.asarray([1.0, 30.0]))
    np.testing.assert_allclose(space.to_unit(jnp.asarray([[0.5, 10.0], [1.0, -10.0]])), [[0, 0], [1, -1]])
