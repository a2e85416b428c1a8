"""The layers that the metric's and the agents' networks are made of."""

import jax
import numpy as np
import pytest

from ploff.networks import MLP


@pytest.mark.parametrize("activation", ["tanh-elu", "relu"])
def test_hidden_layers_activate_as_they_are_named(activation):
    mlp = MLP.init(jax.random.key(0), (2, 4, 5, 6, 3), activation=activation)
    observations = jax.random.normal(jax.random.key(1), (5, 2))
    x = np.asarray(observations)
    *hidden, last = mlp.layers
    assert len(hidden) == 3
    for index, layer in enumerate(hidden):
        x = x @ np.asarray(layer.weight) + np.asarray(layer.bias)
        elu = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
        x = np.maximum(x, 0) if activation == "relu" else np.tanh(x) if index == 0 else elu
    expected = x @ np.asarray(last.weight) + np.asarray(last.bias)
    np.testing.assert_allclose(mlp(observations), expected, atol=1e-6)
