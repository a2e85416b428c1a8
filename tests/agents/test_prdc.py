"""PRDC: the nearest logged action, and what it adds to TD3, against slow references."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import advance, begin, dataset_for, distance_stats, td3_batch, tiny, to_units, toy_log
from ploff.agents import prdc
from ploff.agents.dataset import OfflineDataset
from ploff.utils.errors import PloffError


def small_dataset(num_neighbors):
    data = toy_log(episodes=12).with_unit_rewards()
    return OfflineDataset.of(data, distance_stats(data, "l2", num_neighbors))


@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
def test_prdc_finds_the_nearest_of_all_logged_pairs_where_all_are_candidates(beta):
    dataset = small_dataset(120)
    config = tiny("prdc", beta=beta)
    rows = jnp.arange(0, 120, 7)
    unit = np.random.default_rng(0).uniform(-1, 1, (len(rows), 2))
    states = dataset.data.states(rows)
    near = prdc.nearest_action(dataset, rows, states, jnp.asarray(unit, jnp.float32), config)
    logged = to_units(dataset.data.actions)
    every = np.asarray(dataset.data.states(jnp.arange(120)))
    for i in range(len(rows)):
        apart = beta**2 * np.sum((every - np.asarray(states[i])) ** 2, axis=-1)
        apart += np.sum((logged - unit[i]) ** 2, axis=-1)
        np.testing.assert_allclose(near[i], logged[apart.argmin()], atol=1e-5)


def test_prdc_looks_among_the_neighbors_of_the_state_alone():
    dataset = small_dataset(1)  # each state's only neighbor is itself
    config = tiny("prdc")
    rows = jnp.arange(20)
    near = prdc.nearest_action(dataset, rows, dataset.data.states(rows), jnp.ones((20, 2)), config)
    np.testing.assert_allclose(near, to_units(dataset.data.actions[:20]), atol=1e-5)


def test_prdc_imitates_the_nearest_action_and_follows_the_value():
    config, dataset = tiny("prdc"), dataset_for("prdc")
    state = dataclasses.replace(begin("prdc", dataset, config), step=jnp.asarray(1))  # the actor's turn
    following, info = advance("prdc", state, dataset, config)
    rows, batch = td3_batch(dataset, config)
    actions = state.actor.params(batch.observations)
    unit = jnp.asarray(to_units(actions), jnp.float32)
    near = prdc.nearest_action(dataset, jnp.asarray(rows), batch.observations, unit, config)
    value = np.asarray(following.critics.params.q1(batch.observations, actions))
    expected = np.mean((unit - near) ** 2) - config.alpha * value.mean() / np.abs(value).mean()
    assert float(info["actor_loss"]) / config.policy_delay == pytest.approx(float(expected), rel=1e-4)
    pairs = np.concatenate([batch.observations, actions], axis=-1)
    distance, spacing = dataset.distances.data_distance, float(dataset.distances.median_nn_distance)
    neighbors = np.asarray(distance.pairs)[np.asarray(distance.neighbors)[rows]]
    apart = np.linalg.norm(neighbors - pairs[:, None], axis=-1).min(axis=-1)
    assert float(info["data_distance"]) / config.policy_delay == pytest.approx(apart.mean() / spacing, rel=1e-4)


def test_prdc_without_neighbors_in_plain_distance_is_refused():
    dataset = dataset_for("prdc")
    state, config = begin("prdc", dataset, tiny("prdc")), tiny("prdc")
    with pytest.raises(PloffError, match="plain L2"):
        advance("prdc", state, dataclasses.replace(dataset, distances=None), config)
