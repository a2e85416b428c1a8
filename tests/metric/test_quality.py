import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metric_cases import QUICK, SMALL, random_log
from ploff import ActionSpace, Transitions
from ploff.metric import quality
from ploff.metric.train import learn_metric
from ploff.neighbors import Euclidean


def test_the_roc_area_in_numbers():
    assert quality.roc_auc(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1.0
    assert quality.roc_auc(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 0.0
    assert quality.roc_auc(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0.5
    assert quality.roc_auc(np.array([1.0, 3.0]), np.array([2.0])) == 0.5


def test_no_episode_is_both_learned_from_and_held_out():
    data = random_log()
    split = quality.EpisodeSplit.of(data, 0.25, seed=0)
    ends = data.episode_ends()
    learned, held = (set(np.searchsorted(ends, rows)) for rows in (split.train, split.validation))
    assert not learned & held
    assert len(held) == 3
    assert len(split.train) + len(split.validation) == len(data)


def test_episodes_without_a_known_successor_are_neither_learned_from_nor_held_out():
    data = random_log()
    count = len(data)
    ends = np.arange(count) % 10 < 6  # five of six episodes are one row long
    short = Transitions.from_rows(
        observations=np.asarray(data.observations)[:count],
        actions=np.asarray(data.actions),
        rewards=np.asarray(data.rewards),
        terminals=ends,
        timeouts=np.zeros(count, bool),
        action_space=data.action_space,
    )
    for seed in range(20):
        split = quality.EpisodeSplit.of(short, 0.05, seed)
        assert len(split.train)
        assert len(split.validation)


def test_the_distance_to_the_data_tells_logged_from_random_actions_where_it_should():
    """Logged actions follow the state, so the support is thin: L2 must see it. Where they are random, nothing can."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (2000, 2)).astype(np.float32)
    rows = {
        "observations": states,
        "next_observations": states,
        "rewards": rng.uniform(size=2000).astype(np.float32),
        "terminals": np.zeros(2000, bool),
        "timeouts": np.arange(2000) % 50 == 49,
        "action_space": ActionSpace.box([-1, -1], [1, 1]),
    }
    thin = Transitions.from_rows(actions=states, **rows)
    wide = Transitions.from_rows(actions=rng.uniform(-1, 1, (2000, 2)).astype(np.float32), **rows)
    areas = []
    for data in (thin, wide):
        split = quality.EpisodeSplit.of(data, 0.2, seed=0)
        areas.append(quality.support_auc(Euclidean(), data, split, jax.random.key(0), queries=300, k=20)[0])
    assert areas[0] > 0.9
    assert areas[1] == pytest.approx(0.5, abs=0.05)


def test_the_residual_is_zero_at_a_fixed_point_and_not_elsewhere():
    """All rewards equal and a metric that is zero everywhere: d = F d exactly."""
    learned = learn_metric(random_log(), SMALL, QUICK, quiet=True)
    data = learned.in_units_of(random_log())
    flat = dataclasses.replace(data, rewards=np.zeros(len(data), np.float32))
    zero = jax.tree.map(jnp.zeros_like, learned.metric)
    config = dataclasses.replace(SMALL, state_weight=0.0)
    rows = data.rows_with_successor()
    assert quality.bellman_residual(zero, flat, rows, jax.random.key(0), config) == 0
    assert quality.bellman_residual(zero, data, rows, jax.random.key(0), config) > 0.5
    assert quality.bellman_residual(learned.metric, data, rows, jax.random.key(0), SMALL) > 0.01


def test_the_overlap_counts_shared_neighbors():
    before = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    after = np.array([[4, 3, 9, 10], [5, 6, 7, 8]])
    assert quality.neighbor_overlap(before, after) == pytest.approx(0.75)
