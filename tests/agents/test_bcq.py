"""BCQ: its perturbation, its losses and its model of the log, against slow references."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import KEY, SPACE, advance, begin, dataset_for, slow_critic_loss, slow_target, tiny, to_units
from ploff.agents import bcq
from ploff.agents.networks import HiddenLayers
from ploff.agents.sampled_actions import soft_clipped_double_q


def test_a_perturbation_moves_an_action_by_its_reach_at_most_and_never_out_of_the_box():
    moves = bcq.Perturbation.init(KEY, (2,), SPACE, HiddenLayers((8, 8)), 0.05)
    actions = SPACE.from_unit(jax.random.uniform(KEY, (50, 6, 2), minval=-1, maxval=1))
    moved = moves(jnp.zeros((6, 2)), actions)
    change = np.abs(to_units(moved) - to_units(actions))
    assert 0 < change.max() <= 0.05 + 1e-6
    edge = actions * 0 + jnp.asarray(SPACE.high)
    assert np.abs(to_units(moves(jnp.zeros((6, 2)), edge))).max() <= 1


def test_bcqs_losses_are_as_printed():
    dataset, config = dataset_for("bcq"), tiny("bcq")
    state = begin("bcq", dataset, config)
    following, info = advance("bcq", state, dataset, config)
    keys = jax.random.split(KEY, 4)
    _, batch = dataset.sample(keys[0], config.batch_size)
    proposals = following.vae.params.sample(keys[2], batch.next_observations, config.num_samples)
    there = state.perturbation.target(batch.next_observations, proposals)
    value = soft_clipped_double_q(state.critics.target, batch.next_observations, there, 0.75)
    expected = slow_critic_loss(state.critics.params, batch, slow_target(batch, value))
    assert float(info["critic_loss"]) == pytest.approx(expected, rel=1e-4)
    proposal = following.vae.params.sample(keys[3], batch.observations, 1)
    here = state.perturbation.params(batch.observations, proposal)[0]
    q = following.critics.params.q1(batch.observations, here)
    assert float(info["actor_loss"]) == pytest.approx(-float(jnp.mean(q)), rel=1e-4)


def test_bcqs_model_is_judged_by_what_it_rebuilds_and_by_its_latents():
    dataset, config = dataset_for("bcq"), tiny("bcq")
    state = begin("bcq", dataset, config)
    _, info = advance("bcq", state, dataset, config)
    keys = jax.random.split(KEY, 4)
    _, batch = dataset.sample(keys[0], config.batch_size)
    vae = state.vae.params
    mean, log_std = (np.asarray(x, np.float64) for x in vae.encode(batch.observations, batch.actions))
    latents = mean + np.exp(log_std) * np.asarray(jax.random.normal(keys[1], mean.shape))
    decoded = np.tanh(vae.decode(batch.observations, jnp.asarray(latents[None], jnp.float32))[0])
    apart = np.mean((decoded - to_units(batch.actions)) ** 2)
    divergence = np.mean(-0.5 * (1 + 2 * log_std - mean**2 - np.exp(2 * log_std)))
    assert float(info["vae_loss"]) == pytest.approx(apart + 0.5 * divergence, rel=1e-4)
