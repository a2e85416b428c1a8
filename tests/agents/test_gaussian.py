"""Stochastic policies: their samples and their densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from agent_cases import OBSERVATIONS, SPACE, to_box, to_units
from ploff.agents.gaussian import SquashedGaussian, TanhMeanGaussian
from ploff.agents.networks import HiddenLayers

KEY = jax.random.key(0)


def squashed():
    return SquashedGaussian.init(KEY, (2,), SPACE, HiddenLayers((8, 8)))


def test_a_squashed_density_is_that_of_the_normal_one_through_the_change_of_variables():
    policy = squashed()
    drawn = policy.sample(jax.random.key(2), OBSERVATIONS, 3)
    mean, log_std = (np.asarray(x, np.float64) for x in policy.moments(OBSERVATIONS))
    raw = np.asarray(drawn.raw, np.float64)
    expected = stats.norm.logpdf(raw, mean, np.exp(log_std)) - np.log(1 - np.tanh(raw) ** 2)
    np.testing.assert_allclose(drawn.log_prob, expected.sum(-1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(to_units(drawn.actions), np.tanh(raw), atol=1e-5)


def test_a_squashed_density_integrates_to_one():
    policy = SquashedGaussian.init(KEY, (2,), SPACE, HiddenLayers((8, 8)))
    grid = (np.arange(200) + 0.5) / 100 - 1
    unit = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 1, 2)
    densities = jnp.exp(policy.log_prob(OBSERVATIONS[:1], jnp.asarray(to_box(unit), jnp.float32)))
    assert float(jnp.sum(densities)) / 100**2 == pytest.approx(1.0, abs=0.02)


def test_the_density_of_a_sample_is_the_one_that_it_came_with():
    policy = squashed()
    drawn = policy.sample(jax.random.key(2), OBSERVATIONS, 3)
    again = policy.log_prob(OBSERVATIONS, drawn.actions)
    np.testing.assert_allclose(again, drawn.log_prob, atol=1e-2)
    np.testing.assert_allclose(policy.log_prob_of_raw(OBSERVATIONS, drawn.raw), drawn.log_prob, atol=1e-4)


def test_a_logged_action_on_the_edge_has_a_finite_density_and_gradient():
    edge = jnp.broadcast_to(jnp.asarray(SPACE.high), (5, 2))
    value, gradient = jax.value_and_grad(lambda shift: jnp.sum(squashed().log_prob(OBSERVATIONS + shift, edge)))(0.0)
    assert np.isfinite(value)
    assert np.isfinite(gradient)


def test_a_bounded_density_is_a_normal_one_around_the_policy():
    policy = TanhMeanGaussian.init(KEY, (2,), SPACE, HiddenLayers((8, 8)))
    policy = TanhMeanGaussian(policy.mean, jnp.log(jnp.asarray([0.5, 2.0])))
    actions = to_box(np.linspace(-1, 1, 10).reshape(5, 2))
    expected = stats.norm.logpdf(to_units(actions), to_units(policy(OBSERVATIONS)), np.asarray([0.5, 2.0]))
    log_prob = policy.log_prob(OBSERVATIONS, jnp.asarray(actions, jnp.float32))
    np.testing.assert_allclose(log_prob, expected.sum(-1), rtol=1e-4)
