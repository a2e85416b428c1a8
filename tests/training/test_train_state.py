"""One gradient step of what is learned."""

import jax.numpy as jnp
import optax
import pytest

from ploff.training.train_state import TrainState


def test_a_gradient_step_is_that_of_the_optimizer():
    tx = optax.sgd(0.1)
    state = TrainState.init(jnp.asarray(3.0), tx)
    moved, loss, aux = state.apply_gradient(tx, lambda x: (x**2, 2 * x))
    assert (float(loss), float(aux)) == (9.0, 6.0)
    assert float(moved.params) == pytest.approx(3.0 - 0.1 * 6.0)
