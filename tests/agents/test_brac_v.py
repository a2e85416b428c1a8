"""BRAC-v: the divergence from the clone, its losses and the clone's entropy, against slow references."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agent_cases import KEY, SPACE, advance, begin, dataset_for, slow_critic_loss, slow_target, tiny
from ploff.agents import brac_v
from ploff.agents.gaussian import SquashedGaussian
from ploff.agents.networks import HiddenLayers
from ploff.training.train_state import TrainState


def constant_policy(mean, std):
    """A policy that is the same in every state."""
    policy = SquashedGaussian.init(jax.random.key(0), (2,), SPACE, HiddenLayers((4,)))
    bias = jnp.concatenate([jnp.asarray(mean), jnp.log(jnp.asarray(std))])
    last = policy.mlp.layers[-1]
    return eqx.tree_at(
        lambda p: (p.mlp.layers[-1].weight, p.mlp.layers[-1].bias), policy, (jnp.zeros_like(last.weight), bias)
    )


def test_the_divergence_estimates_that_of_two_normal_distributions():
    ours, logs = constant_policy([0.2, -0.1], [0.5, 0.3]), constant_policy([0.0, 0.1], [0.8, 0.4])
    _, estimates = brac_v.kl_divergence(ours, logs, KEY, jnp.zeros((10_000, 2)), 5)
    ratio, apart = np.asarray([0.5 / 0.8, 0.3 / 0.4]), np.asarray([0.2 / 0.8, 0.2 / 0.4])
    exact = np.sum(0.5 * (ratio**2 + apart**2 - 1) - np.log(ratio))  # squashing changes both densities alike
    assert float(jnp.mean(estimates)) == pytest.approx(exact, abs=0.02)


def test_the_divergence_grows_as_the_policy_leaves_the_box():
    logs = constant_policy([0.0, 0.0], [0.8, 0.4])

    def estimate(mean):
        ours = constant_policy([mean, 0.0], [0.5, 0.4])  # in the second component as the clone
        return float(jnp.mean(brac_v.kl_divergence(ours, logs, KEY, jnp.zeros((10_000, 2)), 5)[1]))

    # Out there log(1 − tanh²u) is 2 (log 2 − u). The clone is asked at 0.999, wherever the action lies.
    policy = -0.5 * np.log(2 * np.pi * np.e * 0.5**2) - 2 * (np.log(2) - 9)
    inside = np.arctanh(0.999)
    clone = -0.5 * (inside / 0.8) ** 2 - np.log(0.8) - 0.5 * np.log(2 * np.pi) - np.log(1 - 0.999**2)
    assert estimate(9.0) == pytest.approx(policy - clone, abs=0.1)
    assert estimate(10.0) - estimate(9.0) == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("warm", [True, False])
def test_brac_penalizes_the_target_and_the_actor_which_follows_the_value_once_warm(warm):
    dataset, config = dataset_for("brac-v"), tiny("brac-v")
    step = jnp.asarray(config.warmup_steps - (not warm))
    state = dataclasses.replace(begin("brac-v", dataset, config), step=step)
    following, info = advance("brac-v", state, dataset, config)
    sample_key, behavior_key, next_key, key = jax.random.split(KEY, 4)
    _, batch = dataset.sample(sample_key, config.batch_size)
    clone = following.behavior.params
    policy, count = state.actor.params, config.num_samples
    actions, divergence = brac_v.kl_divergence(policy, clone, next_key, batch.next_observations, count)
    value = state.critics.target.min(batch.next_observations, actions) - config.alpha * divergence
    expected = slow_critic_loss(state.critics.params, batch, slow_target(batch, value))
    assert float(info["critic_loss"]) == pytest.approx(expected, rel=1e-4)
    actions, divergence = brac_v.kl_divergence(policy, clone, key, batch.observations, count)
    q = following.critics.params.min(batch.observations, actions)
    expected = float(jnp.mean(config.alpha * divergence - warm * q))
    assert float(info["actor_loss"]) == pytest.approx(expected, rel=1e-4)
    logged = state.behavior.params.log_prob(batch.observations, batch.actions, 1e-3)
    own = state.behavior.params.sample(behavior_key, batch.observations, 1).log_prob
    assert float(info["behavior_loss"]) == pytest.approx(float(jnp.mean(own) - jnp.mean(logged)), rel=1e-4)


@pytest.mark.parametrize(("log_std", "start", "direction"), [(0.0, 1.0, -1), (-4.0, 1.0, 1), (0.0, 0.0, 0)])
def test_bracs_clone_is_held_at_an_entropy_of_minus_its_width(log_std, start, direction):
    dataset, config = dataset_for("brac-v"), tiny("brac-v")
    state = begin("brac-v", dataset, config)
    clone = constant_policy([0.0, 0.0], jnp.exp(jnp.full(2, log_std)))
    state = dataclasses.replace(
        state,
        behavior=TrainState.init(clone, optax.adam(config.behavior_lr)),
        temperature=TrainState.init(jnp.asarray(start), optax.adam(config.behavior_lr)),
    )
    following, _ = advance("brac-v", state, dataset, config)
    moved = float(following.temperature.params) - start
    assert moved == pytest.approx(direction * config.behavior_lr, rel=1e-3)  # Adam's first step; never below 0
