"""ReBRAC: what it adds to TD3, against slow references."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import KEY, advance, begin, dataset_for, slow_critic_loss, td3_batch, tiny, to_units, toy_log
from ploff.agents import td3


def test_rebrac_subtracts_the_square_distance_to_the_next_logged_action_from_the_value():
    config = tiny("rebrac", batch_size=256, critic_bc_weight=0.3)
    dataset, data = dataset_for("rebrac"), toy_log()
    state = begin("rebrac", dataset, config)
    _, info = advance("rebrac", state, dataset, config)
    rows, batch = td3_batch(dataset, config)
    actions = state.actor.target(batch.next_observations)
    noisy = td3.target_policy_smoothing(actions, jax.random.split(KEY)[1], config, dataset.data.action_space)
    value = np.asarray(state.critics.target.min(batch.next_observations, noisy))
    target = np.asarray(batch.rewards, np.float64)
    for i, row in enumerate(rows):
        if data.terminals[row]:
            continue
        penalty = 0.0
        if not data.timeouts[row]:  # behind a timeout, no action was logged
            penalty = np.sum((to_units(actions[i]) - to_units(data.actions[row + 1])) ** 2)
        target[i] += config.discount * (value[i] - 0.3 * penalty)
    expected = slow_critic_loss(state.critics.params, batch, target)
    assert float(info["critic_loss"]) == pytest.approx(expected, rel=1e-4)


def test_rebrac_weighs_imitation_against_the_value_over_its_own_size():
    config, dataset = tiny("rebrac"), dataset_for("rebrac")
    state = dataclasses.replace(begin("rebrac", dataset, config), step=jnp.asarray(1))  # the actor's turn
    following, info = advance("rebrac", state, dataset, config)
    _, batch = td3_batch(dataset, config)
    actions = state.actor.params(batch.observations)
    value = np.asarray(following.critics.params.min(batch.observations, actions))
    apart = np.sum((to_units(actions) - to_units(batch.actions)) ** 2, axis=-1)
    other = np.asarray(following.critics.params.q1(batch.observations, actions))
    assert abs(other.mean() / np.abs(other).mean() - value.mean() / np.abs(value).mean()) > 1e-2
    expected = 0.1 * apart.mean() - value.mean() / np.abs(value).mean()
    assert float(info["actor_loss"]) / config.policy_delay == pytest.approx(expected, rel=1e-4)
