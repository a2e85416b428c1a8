import dataclasses

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agent_cases import distance_stats
from discrete_cases import bandit_log, one_step, step_of, table, trained
from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete import ploff
from ploff.agents.discrete.ploff import PloffConfig, PloffState, action_bonuses, action_distances
from ploff.training.train_state import TrainState
from ploff.utils.errors import PloffError


@pytest.fixture(scope="module")
def stats():
    return distance_stats(bandit_log(60).with_normalized_observations(), "l2", count=5)


def test_distances_of_all_actions_are_those_of_one_at_a_time(stats):
    rows = jnp.asarray([0, 7, 31])
    found = action_distances(stats, rows, 5)
    assert found.shape == (3, 4, 5)
    for action in range(4):
        encoded = jnp.broadcast_to(jnp.eye(4)[action], (3, 4))
        alone = stats.data_distance.neighbor_distances(rows, encoded) / stats.neighborhood_radius
        np.testing.assert_allclose(found[:, action], alone, rtol=1e-5, atol=1e-6)
    logged = np.asarray(stats.data_distance.data.actions)[rows]
    np.testing.assert_allclose(np.min(found, axis=-1)[np.arange(3), logged], 0, atol=1e-6)  # its own pair is near


def test_the_mean_bonus_by_hand(stats):
    rows = jnp.asarray([0, 7])
    config = PloffConfig(num_neighbors=5, value_temperature=0.0, state_kernel=0.0)
    distances = np.asarray(action_distances(stats, rows, 5))
    found = action_bonuses(stats, rows, jnp.zeros((2, 4)), jnp.zeros(60), config)
    np.testing.assert_allclose(found, -0.5 * np.mean(distances**2, axis=-1), rtol=1e-5)
    closest = dataclasses.replace(config, bonus="exp", beta=2.0)
    found = action_bonuses(stats, rows, jnp.zeros((2, 4)), jnp.zeros(60), closest)
    np.testing.assert_allclose(found, np.exp(-2 * distances.min(axis=-1)), rtol=1e-5)


def started(q, target, weight, **changes):
    config = PloffConfig(discount=0.9, batch_size=2, num_neighbors=2, **changes)
    network = TrainState.init(table(np.zeros((2, 3))), optax.adam(3e-4))
    one, many = jnp.ones(()), jnp.zeros(2)
    state = PloffState(trained(q, target), network, one, jnp.asarray(weight), many, jnp.zeros((), jnp.int32))
    dataset = one_step()
    dataset = dataclasses.replace(dataset, distances=distance_stats(dataset.data, "l2", count=2))
    return state, dataset, config


def test_the_target_takes_the_best_action_by_value_and_bonus():
    """In state 1 action 0 was logged; the critic would take action 2."""
    q, target = [[0.0, 4.0, 0.0], [1.0, 0.0, 2.0]], [[0.0, 0.0, 0.0], [10.0, 20.0, 30.0]]
    for weight, value in ((0.0, 30.0), (1000.0, 10.0)):
        state, dataset, config = started(q, target, weight)
        _, info = step_of(ploff, state, dataset, config)
        assert float(info["critic_loss"]) == pytest.approx((4 - (0.5 + 0.9 * value)) ** 2, rel=1e-5)


def test_the_bonus_in_the_target_is_in_units_of_the_value():
    q, target = [[0.0, 4.0, 0.0], [1.0, 0.0, 2.0]], [[0.0] * 3, [10.0, 20.0, 30.0]]
    state, dataset, config = started(q, target, 1000.0, critic_bonus_weight=2.0)
    state = dataclasses.replace(state, value_scale=jnp.asarray(3.0))
    stats, rows = dataset.distances, jnp.asarray([1])
    earned = float(action_bonuses(stats, rows, jnp.asarray([q[1]]), jnp.zeros(2), config)[0, 0])
    _, info = step_of(ploff, state, dataset, config)
    assert float(info["critic_loss"]) == pytest.approx((4 - (0.5 + 0.9 * (10 + 2 * 3 * earned))) ** 2, rel=1e-5)


def test_the_policy_repeats_value_and_bonus():
    state, _, _ = started([[0.0, 4.0, 0.0], [1.0, 0.0, 2.0]], None, 2.0)
    bonus = dataclasses.replace(state.bonus, params=table([[0.0, -4.0, 0.0], [0.0, 0.0, -1.0]]))
    state = dataclasses.replace(state, bonus=bonus, value_scale=jnp.asarray(2.0))
    policy = ploff.policy(state)
    np.testing.assert_allclose(policy.scores(jnp.eye(2)), [[0, 2 - 8, 0], [0.5, 0, 1 - 2]])
    assert policy(jnp.eye(2)).tolist() == [0, 0]
    assert policy(jnp.eye(2), jnp.asarray([[False, True, False], [False, True, True]])).tolist() == [1, 1]


def test_the_value_scale_is_how_much_actions_differ():
    q = [[0.0, 4.0, 2.0], [0.0] * 3]
    state, dataset, config = started(q, None, 1.0)
    state, _ = step_of(ploff, state, dataset, config)
    assert float(state.value_scale) == pytest.approx(np.std(q[0]), rel=1e-6)  # the first of a moving average


def test_a_dataset_without_distances_is_refused():
    state, dataset, config = started([[0.0] * 3] * 2, None, 1.0)
    with pytest.raises(PloffError, match="needs distances to the data"):
        step_of(ploff, state, OfflineDataset.of(dataset.data), config)
