import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neighbor_cases import BOX, distance_of, log
from ploff.actions import ActionSpace
from ploff.metric.pseudometric import MetricConfig, build_metric
from ploff.neighbors import (
    DataDistance,
    Euclidean,
    OnlineDataDistance,
    action_sensitivity,
    distances_to_others,
    embed_logged_pairs,
    embed_logged_states,
    exact_distance,
    median_nn_distance,
    neighborhood_radius,
    state_distances,
)
from ploff.transitions import Transitions
from ploff.utils.errors import DataError


@functools.cache
def learned(space=BOX, **changes):
    config = MetricConfig(hidden_sizes=(64,), embedding_size=8, **changes)
    return build_metric(jax.random.key(0), (4,), space, config, limit=30.0)


METRICS = pytest.mark.parametrize(
    "metric", [Euclidean(), learned(), learned(action_weight=0.0, bounded=False)], ids=["l2", "w=1", "w=0"]
)


def logged_actions(data):
    return data.action_space.encode(jnp.asarray(data.actions))


@METRICS
def test_states_and_pairs_are_as_far_from_their_neighbors_as_their_embeddings(metric):
    data = log(60)
    logged = distance_of(metric, data, k=5)
    near, states = np.asarray(logged.neighbors), embed_logged_states(metric, data.to_device())
    expected = np.linalg.norm(states[:, None] - states[near], axis=-1)
    np.testing.assert_allclose(state_distances(logged), expected, rtol=1e-4, atol=1e-6)
    assert np.all(state_distances(logged)[: len(data), 0] == 0)
    pairs, rows = np.asarray(logged.pairs), np.arange(len(data))
    apart = metric.pair_distance(jnp.asarray(pairs[rows, None]), jnp.asarray(pairs[near[rows, 1:]]))
    assert neighborhood_radius(logged) == pytest.approx(float(np.median(apart)), rel=1e-5)


@METRICS
def test_the_action_sensitivity_is_how_far_pairs_move_with_their_actions(metric):
    data = log(60)
    logged, actions = distance_of(metric, data), np.asarray(logged_actions(data))
    half_range, step = data.action_space.half_range, 1e-3
    directions = np.asarray(jax.random.normal(jax.random.key(0), actions.shape))
    directions = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    observations = data.states(jnp.arange(len(data)))
    there, back = (
        metric.embed_pairs(observations, jnp.asarray(actions + sign * step * directions * half_range))
        for sign in (0.5, -0.5)
    )
    expected = np.median(metric.pair_distance(there, back)) / step
    assert action_sensitivity(logged) == pytest.approx(float(expected), rel=1e-2)


def test_the_action_sensitivity_of_the_plain_metric_is_one_in_a_box_of_half_range_one():
    data = dataclasses.replace(log(60), action_space=ActionSpace.box([-1.0, -1.0], [1.0, 1.0]))
    assert action_sensitivity(distance_of(Euclidean(), data)) == pytest.approx(1.0, rel=1e-5)


def test_the_plain_metric_is_l2_on_states_and_pairs_side_by_side():
    metric = Euclidean()
    x, y = metric.embed_pairs(jnp.array([[0.0, 3.0], [0.0, 0.0]]), jnp.array([[0.0], [4.0]]))
    assert metric.embed_states(jnp.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert float(metric.pair_distance(x, y)) == 5.0


def test_the_plain_metric_refuses_images_in_one_line():
    images = np.zeros((5, 4, 4, 3), np.uint8)
    data = Transitions.from_rows(
        observations=images[:-1],
        actions=np.zeros((4, 2), np.float32),
        rewards=np.zeros(4, np.float32),
        terminals=np.zeros(4, bool),
        timeouts=np.zeros(4, bool),
        next_observations=images[1:],
        action_space=BOX,
    )
    for embed in (embed_logged_states, embed_logged_pairs):
        with pytest.raises(DataError, match=r"shape \(4, 4, 3\) need a learned one"):
            embed(Euclidean(), data)


def test_the_distance_by_hand():
    data = Transitions.from_rows(
        observations=np.array([[0.0], [1.0], [10.0]], np.float32),
        actions=np.array([[0.0], [0.5], [0.0]], np.float32),
        rewards=np.zeros(3, np.float32),
        terminals=np.array([False, False, True]),
        timeouts=np.zeros(3, bool),
        action_space=ActionSpace.box([-1.0], [1.0]),
    )
    logged = DataDistance.init(Euclidean(), data, np.array([[0, 1], [1, 0], [2, 1]]))
    actions = jnp.array([[0.5], [0.5], [1.0]])
    expected = [[0.5, 1.0], [0.0, np.hypot(1, 0.5)], [1.0, np.hypot(9, 0.5)]]
    np.testing.assert_allclose(logged.neighbor_distances(jnp.arange(3), actions), expected, rtol=1e-6)
    np.testing.assert_allclose(logged.distance(jnp.arange(3), actions), [0.5, 0.0, 1.0], rtol=1e-6)


@METRICS
def test_every_logged_pair_is_at_distance_zero(metric):
    data = log()
    logged = distance_of(metric, data)
    rows, actions = jnp.arange(len(data)), logged_actions(data)
    by_table = logged.distance(rows, actions)
    exact = exact_distance(metric, logged.pairs, data.states(rows), actions)
    online = OnlineDataDistance(logged).distance(data.states(rows), actions)
    typical = float(jnp.mean(logged.neighbor_distances(rows, actions)))
    for distances in (by_table, exact, online):  # zero up to the rounding of float32 in the network
        assert float(jnp.max(distances)) <= 1e-6 * typical


@METRICS
def test_the_lookup_is_the_minimum_over_its_neighbors_as_numpy_finds_it(metric):
    data = log()
    logged = distance_of(metric, data)
    rows = np.array([0, 7, 199, len(data) + 3])
    actions = jax.random.uniform(jax.random.key(1), (4, 2), minval=-1)
    for row, action, found in zip(rows, actions, logged.distance(jnp.asarray(rows), actions), strict=True):
        pair = metric.embed_pairs(data.states(int(row)), action)
        distances = [float(metric.pair_distance(pair, logged.pairs[n])) for n in logged.neighbors[row]]
        assert float(found) == pytest.approx(min(distances), rel=1e-4)


@METRICS
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16), kept=st.integers(1, 119))
def test_the_exact_distance_never_grows_when_rows_are_added(metric, seed, kept):
    data = log(120, seed)
    pairs = jnp.asarray(embed_logged_pairs(metric, data.to_device()))
    order = np.random.default_rng(seed).permutation(120)
    fewer = pairs[np.resize(order[:kept], 120)]  # repeated rows change no minimum, and no shape
    observations = jax.random.normal(jax.random.key(seed), (16, 4))
    actions = jax.random.uniform(jax.random.key(seed + 1), (16, 2), minval=-1)
    before = exact_distance(metric, fewer, observations, actions)
    after = exact_distance(metric, pairs, observations, actions)
    assert bool(jnp.all(after <= before))


@METRICS
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_the_lookup_is_an_upper_bound_and_exact_with_all_neighbors(metric, seed):
    data = log(120, seed)
    rows = jax.random.randint(jax.random.key(seed), (32,), 0, data.num_states)
    actions = jax.random.uniform(jax.random.key(seed + 1), (32, 2), minval=-1)
    logged = distance_of(metric, data, k=5)
    exact = exact_distance(metric, logged.pairs, data.states(rows), actions)
    assert bool(jnp.all(logged.distance(rows, actions) >= exact - 1e-6))
    everything = distance_of(metric, data, k=120)
    np.testing.assert_allclose(everything.distance(rows, actions), exact, rtol=1e-5, atol=1e-6)


def test_the_lookup_can_grow_when_rows_are_added_so_it_is_not_the_exact_mode():
    """State 1 pushes state 0 out of H(s), and takes the nearer action with it."""
    metric = Euclidean()
    states, actions = np.array([[1.0], [0.5]], np.float32), np.array([[0.0], [1.0]], np.float32)

    def lookup(count):
        data = Transitions.from_rows(
            observations=states[:count],
            actions=actions[:count],
            rewards=np.zeros(count, np.float32),
            terminals=np.zeros(count, bool),
            timeouts=np.ones(count, bool),
            action_space=ActionSpace.box([-1.0], [1.0]),
        )
        online = OnlineDataDistance(distance_of(metric, data, k=1))
        return float(online.distance(jnp.zeros((1, 1)), jnp.zeros((1, 1)))[0])

    assert lookup(2) > lookup(1)


@METRICS
def test_an_online_query_at_a_logged_state_equals_the_table(metric):
    data = log()
    logged = distance_of(metric, data)
    rows = jnp.arange(0, data.num_states, 7)
    actions = jax.random.uniform(jax.random.key(0), (len(rows), 2), minval=-1)
    online = OnlineDataDistance(logged).distance(data.states(rows), actions)
    np.testing.assert_allclose(online, logged.distance(rows, actions), rtol=1e-4, atol=1e-5)


@METRICS
def test_the_gradient_reaches_the_action_and_is_the_slope(metric):
    data = log()
    logged = distance_of(metric, data)
    rows = jnp.arange(8)
    actions = jax.random.uniform(jax.random.key(3), (8, 2), minval=-1)

    @jax.jit
    def total(logged, actions):
        return jnp.sum(logged.distance(rows, actions))

    gradient = jax.grad(total, argnums=1)(logged, actions)
    direction = gradient / jnp.linalg.norm(gradient)
    slope = (total(logged, actions + 1e-3 * direction) - total(logged, actions - 1e-3 * direction)) / 2e-3
    assert float(jnp.linalg.norm(gradient)) > 0
    assert float(slope) == pytest.approx(float(jnp.sum(gradient * direction)), rel=0.05)


@METRICS
def test_the_gradient_is_finite_at_logged_actions(metric):
    data = log()
    logged = distance_of(metric, data)
    gradient = jax.grad(lambda a: jnp.sum(logged.distance(jnp.arange(200), a)))(logged_actions(data))
    assert bool(jnp.all(jnp.isfinite(gradient)))


def test_one_compilation_serves_every_batch():
    data = log()
    logged = distance_of(learned(), data)
    traced = []

    @eqx.filter_jit
    def distance(logged, rows, actions):
        traced.append(1)
        return logged.distance(rows, actions)

    for seed in range(3):
        distance(logged, jax.random.randint(jax.random.key(seed), (16,), 0, 200), jnp.zeros((16, 2)))
    assert len(traced) == 1


def test_choices_are_compared_as_one_hot_vectors():
    data = log(space=ActionSpace.discrete(3))
    logged = distance_of(Euclidean(), data, k=1)
    other = jax.nn.one_hot((jnp.asarray(data.actions) + 1) % 3, 3)
    rows = jnp.arange(len(data))
    np.testing.assert_allclose(logged.distance(rows, logged_actions(data)), 0.0)
    np.testing.assert_allclose(logged.distance(rows, other), np.sqrt(2), rtol=1e-6)


@METRICS
def test_the_median_nn_distance_is_that_to_the_nearest_other_pair(metric):
    data = log(120)
    logged = distance_of(metric, data, k=120)
    everyone = metric.pair_distance(logged.pairs[:, None], logged.pairs[None])
    nearest = np.min(np.asarray(everyone) + np.diag(np.full(120, np.inf)), axis=1)
    np.testing.assert_allclose(distances_to_others(logged, sample=None), nearest, rtol=1e-5)
    assert median_nn_distance(logged) == pytest.approx(np.median(nearest), rel=1e-5)


def test_pairs_logged_twice_do_not_make_the_median_nn_distance_zero():
    one = log(40)
    twice = one.select_episodes([0, 1, 0])
    logged = distance_of(Euclidean(), twice, k=20)
    assert median_nn_distance(logged) > 0
    alone = log(20).select_episodes([0, 0])
    copies = DataDistance.init(Euclidean(), alone, np.stack([np.arange(40), (np.arange(40) + 20) % 40], axis=1))
    with pytest.raises(DataError, match="all logged pairs are alike"):
        median_nn_distance(copies)


def test_a_log_written_twice_is_measured_by_its_neighborhood_radius():
    once = log(40)
    twice = once.select_episodes([0, 1, 0, 1])
    logged = distance_of(Euclidean(), twice, k=20)
    assert not np.any(distances_to_others(logged))
    assert median_nn_distance(logged) == neighborhood_radius(logged) > 0
    many = once.select_episodes([0] * 30)  # most of what is near is a copy
    assert neighborhood_radius(distance_of(Euclidean(), many, k=50)) > 0


def test_a_log_too_short_for_a_median_nn_distance_says_so():
    with pytest.raises(DataError, match="one transition"):
        median_nn_distance(distance_of(Euclidean(), log(1)))
