"""PLOff's own part: the critics' values of the logged pairs, and what its actor is paid for."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import advance, begin, dataset_for, td3_batch, tiny
from ploff.agents import ploff
from ploff.agents.bonus import bonus, log_weights
from ploff.agents.dataset import OfflineDataset
from ploff.agents.ploff import NeighborBonus, PloffConfig
from ploff.utils.errors import PloffError


def test_a_step_leaves_the_standard_scores_of_its_batch_in_the_table():
    dataset, config = dataset_for("ploff"), tiny("ploff")
    state = begin("ploff", dataset, config)
    following, _ = advance("ploff", state, dataset, config)
    rows, batch = td3_batch(dataset, config)
    q = np.asarray(state.critics.params.min(batch.observations, batch.actions))
    expected = (q - q.mean()) / q.std()
    np.testing.assert_allclose(following.logged_q_scores[rows], expected, atol=1e-3)
    others = np.setdiff1d(np.arange(len(dataset.data)), rows)
    assert np.all(np.asarray(following.logged_q_scores)[others] == 0)


@pytest.mark.parametrize("value_scale", ["action_gradient", "mean_abs", "none"])
def test_the_actors_loss_is_the_value_and_the_bonus_in_their_own_units(value_scale):
    settings = {"policy_delay": 1, "actor_bonus_weight": 0.7, "num_neighbors": 3, "value_scale": value_scale}
    dataset, config = dataset_for("ploff"), tiny("ploff", **settings)
    state, stats = begin("ploff", dataset, config), dataset.distances
    scores = jax.random.normal(jax.random.key(1), state.logged_q_scores.shape)
    state = dataclasses.replace(state, logged_q_scores=scores)
    following, info = advance("ploff", state, dataset, config)
    rows, batch = td3_batch(dataset, config)
    actions = state.actor.params(batch.observations)
    q1 = following.critics.params.q1
    q = q1(batch.observations, actions)
    near = stats.data_distance.neighbors[rows, :3]
    distances = stats.data_distance.distances_to(dataset.data.states(rows), actions, near) / stats.directional_std
    squared = stats.state_distances_sq[rows, :3].astype(jnp.float32)
    weights = log_weights(scores[near], squared, config.value_temperature, config.state_kernel)
    later = log_weights(following.logged_q_scores[near], squared, config.value_temperature, config.state_kernel)
    assert not np.allclose(weights, later)  # the table as this step left it is not yet in use
    earned = bonus("mean", q, distances, config.beta, weights)
    slopes = jax.vmap(jax.grad(lambda a, o: q1(o[None], a[None])[0]))(actions, batch.observations)
    half_range = dataset.data.action_space.half_range
    steepness = jnp.mean(jnp.linalg.norm(slopes * half_range, axis=-1))
    scales = {
        "action_gradient": steepness * stats.directional_std / stats.action_sensitivity,
        "mean_abs": jnp.mean(jnp.abs(q)),
        "none": 1.0,
    }
    expected = -jnp.mean(q) / scales[value_scale] - 0.7 * jnp.mean(earned)
    assert float(info["actor_loss"]) == pytest.approx(float(expected), rel=1e-4)
    nearest = jnp.mean(jnp.min(distances, axis=-1)) * stats.directional_std / stats.median_nn_distance
    assert float(info["data_distance"]) == pytest.approx(float(nearest), rel=1e-4)


@pytest.mark.parametrize("steepness", [0.1, 1.0, 30.0])
def test_the_policy_moves_one_by_the_weight_deviations_however_steep_the_critic_is(steepness):
    """A linear critic against −d²/2 of one pair in plain L2: the balance lies 1/α_a deviations up the slope."""
    std, weight = 0.4, 5.0
    slope = jnp.full((1, 2), steepness)
    stats = dataclasses.replace(
        dataset_for("ploff-l2").distances,
        neighborhood_radius=jnp.asarray(std * 2**0.5),
        action_sensitivity=jnp.ones(()),
    )
    near = NeighborBonus(stats, jnp.zeros(1), PloffConfig(actor_bonus_weight=weight))
    scale = near.value_scale(jnp.ones(1), slope / stats.data_distance.data.action_space.half_range)

    def loss(action):
        away = jnp.linalg.norm(action + 1e-12) / std
        return -jnp.sum(slope * action) / scale + weight * 0.5 * away**2

    action = jnp.zeros(2)
    for _ in range(200):
        action -= 0.1 * std**2 / weight * jax.grad(loss)(action)
    assert float(jnp.linalg.norm(action)) / std == pytest.approx(1 / weight, rel=1e-3)


def last_weight(actor):
    return np.asarray(actor.mlp.layers[-1].weight)


def test_the_policy_is_a_moving_average_whose_memory_is_a_share_of_training():
    dataset = dataset_for("ploff")
    config = tiny("ploff", policy_delay=2, policy_ema=0.5)
    state = begin("ploff", dataset, config)
    average = last_weight(state.actor.params)
    for step in range(1, 11):
        state, _ = advance("ploff", state, dataset, config, first=step - 1)
        if step % 2 == 0:
            actor = last_weight(state.actor.params)
            average = average + (actor - average) / max(1.0, 0.5 * (step // 2))
        np.testing.assert_allclose(last_weight(state.averaged_actor), average, rtol=1e-5, atol=1e-7)
    observations = dataset.data.states(jnp.arange(3))
    policy = ploff.policy(state)
    np.testing.assert_array_equal(policy(observations), state.averaged_actor(observations))
    assert not np.allclose(policy(observations), state.actor.params(observations))


def test_without_averaging_the_policy_is_the_actor():
    dataset, config = dataset_for("ploff"), tiny("ploff", policy_delay=1, policy_ema=0.0)
    state, _ = advance("ploff", begin("ploff", dataset, config), dataset, config, steps=3)
    policy, actor = jax.tree.leaves(ploff.policy(state)), jax.tree.leaves(state.actor.params)
    assert all(np.array_equal(a, b) for a, b in zip(policy, actor, strict=True))


def test_it_needs_distances_and_sensible_weights():
    dataset, config = dataset_for("ploff"), tiny("ploff")
    bare = OfflineDataset(dataset.data, dataset.rows)
    with pytest.raises(PloffError, match="distances to the data"):
        ploff.update(begin("ploff", dataset, config), bare, jax.random.key(0), config)
    wrong_settings = (
        {"beta": 0.0},
        {"value_temperature": -1.0},
        {"state_kernel": -1.0},
        {"num_neighbors": 0},
        {"policy_ema": 1.5},
    )
    for wrong in wrong_settings:
        with pytest.raises(PloffError):
            PloffConfig(**wrong)


def test_the_preset_paper_is_the_printed_algorithm():
    printed = PloffConfig.paper()
    assert (printed.bonus, printed.critic_form, printed.distance_unit) == ("value", "paper", "none")
    assert (printed.actor_bonus_weight, printed.critic_bonus_weight, printed.beta) == (5.0, 1.0, 0.5)
    assert not printed.layer_norm
    assert (printed.value_scale, printed.policy_ema) == ("none", 0.0)
