import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ploff.metric.networks import PairEncoder, StateEncoder


@pytest.mark.parametrize("encoders", [{}, {"state_encoder_sizes": (6,), "action_encoder_sizes": (5,)}])
def test_every_state_with_every_action_is_embedded_as_if_alone(encoders):
    phi = PairEncoder.init(jax.random.key(0), (4,), 2, (16,), 3, **encoders)
    states = jax.random.normal(jax.random.key(1), (7, 4))
    actions = jax.random.normal(jax.random.key(2), (5, 2))
    together = phi.over_actions(states, actions)
    assert together.shape == (5, 7, 3)
    for number, action in enumerate(actions):
        alone = phi(states, jnp.broadcast_to(action, (7, 2)))
        np.testing.assert_allclose(together[number], alone, atol=1e-6)


def test_the_first_layer_sees_state_and_action_side_by_side():
    phi = PairEncoder.init(jax.random.key(0), (4,), 2, (16,), 3)
    weight = np.concatenate([phi.first_of_state.weight, phi.first_of_action.weight])
    assert np.abs(weight).max() <= 1 / np.sqrt(6)  # ±1/√(4 + 2): the whole input counts
    pair = np.arange(6.0) / 6
    hidden = np.maximum(pair @ weight + phi.first_of_state.bias, 0)
    (last,) = phi.rest.layers
    expected = hidden @ np.asarray(last.weight) + last.bias
    np.testing.assert_allclose(phi(jnp.asarray(pair[:4]), jnp.asarray(pair[4:])), expected, atol=1e-6)


def test_there_are_as_many_layers_as_sizes():
    psi = StateEncoder.init(jax.random.key(0), (4,), (16, 8, 8, 6), 3, (5,))
    shapes = [layer.weight.shape for layer in psi.joint.layers]
    assert shapes == [(5, 16), (16, 8), (8, 8), (8, 6), (6, 3)]
    assert psi(jnp.zeros((2, 4))).shape == (2, 3)
