import dataclasses
import math

import jax.numpy as jnp
import pytest

from discrete_cases import one_step, step_of, trained
from ploff.agents.discrete import cql
from ploff.agents.discrete.cql import CQLConfig
from ploff.agents.discrete.dqn import DQNState

Q, TARGET = [[0.0, 4.0, 1.0], [3.0, 1.0, 2.0]], [[0.0, 0.0, 0.0], [10.0, 20.0, 30.0]]


def info_of(dataset, alpha):
    config = CQLConfig(discount=0.9, batch_size=2, cql_alpha=alpha)
    return step_of(cql, DQNState(trained(Q, TARGET)), dataset, config)[1]


def test_the_gap_is_the_soft_maximum_less_the_logged_value():
    gap = math.log(1 + math.exp(4) + math.exp(1)) - 4
    info = info_of(one_step(), 2.0)
    assert float(info["cql_gap"]) == pytest.approx(gap, rel=1e-5)
    assert float(info["critic_loss"]) == pytest.approx((4 - 9.5) ** 2 + 2 * gap, rel=1e-5)
    assert float(info_of(one_step(), 0.0)["critic_loss"]) == pytest.approx((4 - 9.5) ** 2)


def test_illegal_actions_have_no_part_in_the_gap():
    dataset = dataclasses.replace(one_step(), legal=jnp.asarray([[True, True, False], [True] * 3]))
    assert float(info_of(dataset, 1.0)["cql_gap"]) == pytest.approx(math.log(1 + math.exp(4)) - 4, rel=1e-5)
