import dataclasses

import numpy as np
import pytest

from ploff import ActionSpace, Transitions
from ploff.relevance import Relevance, RelevanceConfig, learn_relevance
from ploff.utils.errors import PloffError
from relevance_cases import MEANINGFUL, QUICK, log_with_noise


@pytest.fixture(scope="module")
def data():
    return log_with_noise()


@pytest.fixture(scope="module")
def relevance(data):
    return learn_relevance(data, QUICK, quiet=True)


def test_columns_that_mean_nothing_are_told_from_those_that_do(relevance):
    assert relevance.relevant() == [True] * MEANINGFUL + [False] * 5
    assert relevance.kept == MEANINGFUL
    assert relevance.shares[:MEANINGFUL].min() > 5 * relevance.shares[MEANINGFUL:].max()
    assert relevance.shares.sum() == pytest.approx(1)
    low, high = relevance.intervals.T
    assert np.all(low <= relevance.shares + 1e-9)
    assert np.all(relevance.shares <= high + 1e-9)


def test_the_coordinates_see_the_columns_that_matter_and_no_noise(data, relevance):
    seen = relevance.applied_to(data)
    assert seen.input_shape == (MEANINGFUL,)
    assert seen.observation_shape == (MEANINGFUL + 5,)
    coordinates = np.asarray(seen.states(np.arange(len(data))))
    np.testing.assert_allclose(coordinates.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(coordinates.std(axis=0), 1, atol=1e-4)
    noise, columns = np.asarray(data.observations)[:, MEANINGFUL:], np.asarray(data.observations)[:, :MEANINGFUL]
    assert np.abs(np.corrcoef(coordinates.T, noise.T)[:MEANINGFUL, MEANINGFUL:]).max() < 0.2
    _, unexplained, _, _ = np.linalg.lstsq(coordinates, columns - columns.mean(axis=0), rcond=None)
    assert np.all(unexplained / (columns.var(axis=0) * len(columns)) < 0.05)


def test_a_rotation_of_the_columns_changes_nothing_of_what_is_seen(data, relevance):
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
    states = np.asarray(data.observations)
    standard = (states - states.mean(axis=0)) / states.std(axis=0)
    turned = dataclasses.replace(data, observations=(standard @ rotation).astype(np.float32))
    again = learn_relevance(turned, QUICK, quiet=True)
    assert again.kept == MEANINGFUL
    rows = np.arange(len(data))
    first, second = (np.asarray(r.applied_to(d).states(rows)) for r, d in ((relevance, data), (again, turned)))
    _, unexplained, _, _ = np.linalg.lstsq(second, first, rcond=None)
    assert np.all(unexplained / len(rows) < 0.05)


def test_constant_and_doubled_columns_do_no_harm(data, relevance):
    states = np.asarray(data.observations)
    more = np.concatenate([states, states[:, :1], np.full((len(states), 1), 7.0)], axis=1)
    wider = learn_relevance(dataclasses.replace(data, observations=more.astype(np.float32)), QUICK, quiet=True)
    assert wider.kept == MEANINGFUL
    assert not wider.relevant()[-1]
    assert np.all(np.isfinite(wider.normalizer.map))


def test_the_same_seed_says_the_same_and_a_file_keeps_it(data, relevance, tmp_path):
    again = learn_relevance(data, QUICK, quiet=True)
    np.testing.assert_array_equal(again.normalizer.map, relevance.normalizer.map)
    relevance.save(tmp_path / "relevance.json")
    read = Relevance.load(tmp_path / "relevance.json")
    np.testing.assert_array_equal(read.normalizer.map, relevance.normalizer.map)
    np.testing.assert_allclose(read.shares, relevance.shares)
    assert (read.floor, read.errors, read.dataset) == (relevance.floor, relevance.errors, relevance.dataset)
    other = learn_relevance(data, dataclasses.replace(QUICK, seed=1), quiet=True)
    assert not np.array_equal(other.normalizer.map, relevance.normalizer.map)


def test_a_network_that_predicts_nothing_has_no_say():
    rng = np.random.default_rng(0)
    count = 400
    data = Transitions.from_rows(
        observations=rng.normal(size=(count, 4)).astype(np.float32),
        actions=rng.uniform(-1, 1, (count, 1)).astype(np.float32),
        rewards=rng.normal(size=count).astype(np.float32),
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % 40 == 39,
        action_space=ActionSpace.box([-1.0], [1.0]),
    )
    config = dataclasses.replace(QUICK, steps=250)
    relevance = learn_relevance(data, config, quiet=True)
    assert min(relevance.errors.values()) > 0.8
    assert 1 <= relevance.kept <= 4
    assert np.all(np.isfinite(relevance.normalizer.map))


def test_images_keep_all_and_are_refused_where_columns_are_asked_for():
    images = Transitions.from_rows(
        observations=np.zeros((4, 8, 8, 1), np.uint8),
        actions=np.zeros((4, 1), np.float32),
        rewards=np.arange(4, dtype=np.float32),
        terminals=np.zeros(4, bool),
        timeouts=np.arange(4) == 3,
        action_space=ActionSpace.box([-1.0], [1.0]),
    )
    assert Relevance.of_everything(images).applied_to(images).input_shape == (8, 8, 1)
    with pytest.raises(PloffError, match="relevance is of columns"):
        learn_relevance(images, RelevanceConfig(steps=1), quiet=True)


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "relevance.json").write_text('{"format": "something else"}')
    with pytest.raises(PloffError, match="remove it"):
        Relevance.load(tmp_path / "relevance.json")
