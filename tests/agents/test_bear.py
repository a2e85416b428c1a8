"""BEAR: the discrepancy of samples, its multiplier and its losses, against slow references."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agent_cases import KEY, advance, begin, dataset_for, slow_critic_loss, slow_target, tiny
from ploff.agents import bear
from ploff.agents.sampled_actions import soft_clipped_double_q
from ploff.training.train_state import TrainState
from ploff.utils.errors import PloffError


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_the_discrepancy_is_that_of_a_loop_over_samples(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 4, 2)), rng.normal(size=(5, 4, 2))

    def mean(a, b):
        total = 0.0
        for i in a:
            for j in b:
                apart = np.sum((i - j) ** 2) if kernel == "gaussian" else np.sum(np.abs(i - j))
                total += np.exp(-apart / (2 * 1.5))
        return total / (len(a) * len(b))

    expected = [
        np.sqrt(mean(x[:, b], x[:, b]) + mean(y[:, b], y[:, b]) - 2 * mean(x[:, b], y[:, b]) + 1e-6) for b in range(4)
    ]
    found = bear.mmd(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), kernel, 1.5)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_equal_samples_have_no_discrepancy_and_a_finite_gradient():
    x = jax.random.normal(KEY, (3, 4, 2))
    value, gradient = jax.value_and_grad(lambda y: jnp.sum(bear.mmd(x, y, "gaussian", 1.0)))(x)
    assert float(value) == pytest.approx(4 * 1e-3, abs=4e-3)
    assert jnp.all(jnp.isfinite(gradient))


def test_the_multiplier_rises_above_the_threshold_and_falls_below_it_within_its_limits():
    config = tiny("bear", mmd_threshold=0.5)
    multiplier = TrainState.init(jnp.zeros(()), optax.adam(config.lagrange_lr))
    assert float(bear.update_multiplier(multiplier, jnp.asarray(0.6), config).params) > 0
    assert float(bear.update_multiplier(multiplier, jnp.asarray(0.4), config).params) < 0
    steep = tiny("bear", mmd_threshold=0.5, lagrange_lr=100.0)
    multiplier = TrainState.init(jnp.zeros(()), optax.adam(100.0))
    assert float(bear.update_multiplier(multiplier, jnp.asarray(0.4), steep).params) == -5.0


@pytest.mark.parametrize(("warm", "model"), [(True, "vae"), (False, "vae"), (True, "gaussian")])
def test_bears_losses_are_as_printed_and_its_actor_follows_the_value_once_warm(warm, model):
    dataset, config = dataset_for("bear"), tiny("bear", behavior_model=model)
    step = jnp.asarray(config.warmup_steps - (not warm))
    state = dataclasses.replace(begin("bear", dataset, config), step=step)
    following, info = advance("bear", state, dataset, config)
    keys = jax.random.split(KEY, 5)
    _, batch = dataset.sample(keys[0], config.batch_size)
    next_actions = state.actor.params.sample(keys[2], batch.next_observations, config.num_samples).actions
    value = soft_clipped_double_q(state.critics.target, batch.next_observations, next_actions, 0.75)
    expected = slow_critic_loss(state.critics.params, batch, slow_target(batch, value))
    assert float(info["critic_loss"]) == pytest.approx(expected, rel=1e-4)
    modeled = following.behavior.params.sample_raw(keys[3], batch.observations, config.num_mmd_samples)
    drawn = state.actor.params.sample(keys[4], batch.observations, config.num_mmd_samples)
    apart = float(jnp.mean(bear.mmd(drawn.raw, modeled, "gaussian", config.mmd_sigma)))
    q = float(jnp.mean(state.critics.params.min(batch.observations, drawn.actions[0])))
    assert float(info["actor_loss"]) == pytest.approx(apart - 0.05 - warm * q, rel=1e-4)
    assert float(info["mmd"]) == pytest.approx(apart, rel=1e-4)
    if model == "gaussian":
        log_prob = state.behavior.params.log_prob(batch.observations, batch.actions)
        assert float(info["behavior_loss"]) == pytest.approx(-float(jnp.mean(log_prob)), rel=1e-4)


def test_an_unknown_kernel_is_refused():
    with pytest.raises(PloffError, match="mmd_kernel"):
        tiny("bear", mmd_kernel="cubic")
