import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from discrete_cases import one_step, step_of, trained, values_of
from ploff.agents.discrete import dqn
from ploff.agents.discrete.dqn import DQNConfig, DQNState

CONFIG = DQNConfig(discount=0.9, batch_size=2)
Q, NEXT_TARGET = [[0.0, 4.0, 0.0], [3.0, 1.0, 2.0]], [[0.0, 0.0, 0.0], [10.0, 20.0, 30.0]]


def loss_of(dataset):
    _, info = step_of(dqn, DQNState(trained(Q, NEXT_TARGET)), dataset, CONFIG)
    return float(info["critic_loss"]), float(info["mean_q"])


def test_the_next_action_is_the_critics_and_its_value_the_targets():
    assert loss_of(one_step()) == pytest.approx(((4 - (0.5 + 0.9 * 10)) ** 2, 4.0))


def test_nothing_follows_a_terminal():
    assert loss_of(one_step(terminal=True))[0] == pytest.approx((4 - 0.5) ** 2)


def test_an_illegal_next_action_is_not_taken():
    mask = [[1, 1, 1], [1, 0, 1]]
    assert loss_of(one_step(mask=mask))[0] == pytest.approx((4 - (0.5 + 0.9 * 10)) ** 2)
    dataset = one_step(mask=[[0, 1, 1], [1, 1, 1]])  # of the state that it left: no matter
    assert loss_of(dataset)[0] == pytest.approx((4 - (0.5 + 0.9 * 10)) ** 2)
    forbidden = dataclasses.replace(one_step(), legal=jnp.asarray([[True] * 3, [False, True, True]]))
    assert loss_of(forbidden)[0] == pytest.approx((4 - (0.5 + 0.9 * 30)) ** 2)


def test_the_target_moves_by_tau():
    config = DQNConfig(discount=0.9, batch_size=2, tau=0.25)
    state, _ = step_of(dqn, DQNState(trained(Q, NEXT_TARGET)), one_step(), config)
    expected = 0.75 * np.asarray(NEXT_TARGET) + 0.25 * values_of(state.critic.params)
    np.testing.assert_allclose(values_of(state.critic.target), expected, rtol=1e-6)
