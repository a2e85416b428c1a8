import jax.numpy as jnp
import numpy as np
import optax
import pytest

from discrete_cases import one_step, step_of, table, trained, value_table
from ploff.agents.discrete import iql
from ploff.agents.discrete.iql import IQLConfig, IQLState, expectile_loss, imitation_weights
from ploff.training.train_state import TrainState


def test_the_expectile_weighs_what_is_above_more():
    assert float(expectile_loss(jnp.asarray([2.0, -1.0]), 0.75)) == pytest.approx((0.75 * 4 + 0.25 * 1) / 2)


def test_weights_are_exponentials_of_advantages_in_their_own_deviation():
    config = IQLConfig(temperature=2.0, max_weight=5.0)
    weights = imitation_weights(jnp.asarray([3.0, -3.0]), config)  # a deviation of 3
    np.testing.assert_allclose(weights, [5.0, np.exp(-2)], rtol=1e-6)


def test_the_critic_learns_from_the_value_of_the_next_state():
    config = IQLConfig(discount=0.9, batch_size=2, value_lr=1e-9, expectile=0.75)
    value = TrainState.init(value_table([1.0, 8.0]), optax.adam(1e-9))
    actor = TrainState.init(table(np.zeros((2, 3))), optax.adam(3e-4))
    critic = trained([[0.0, 4.0, 0.0], [0.0] * 3], [[0.0, 3.0, 0.0], [0.0] * 3])
    _, info = step_of(iql, IQLState(critic, value, actor), one_step(), config)
    assert float(info["value_loss"]) == pytest.approx(0.75 * (3 - 1) ** 2)
    assert float(info["critic_loss"]) == pytest.approx((4 - (0.5 + 0.9 * 8)) ** 2, rel=1e-5)
