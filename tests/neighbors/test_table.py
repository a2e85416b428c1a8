import dataclasses
import os
import pathlib
import warnings

import numpy as np
import pytest

from neighbor_cases import APPROXIMATE, brute_force, easy, hard, log
from ploff.neighbors import Euclidean, find_neighbors
from ploff.neighbors.knn import SearchConfig
from ploff.neighbors.table import HEADER_BYTES, TableKey, build_table, load_table
from ploff.utils.errors import PloffError, PloffWarning

KEY = TableKey(metric="this metric", dataset="this dataset")


def true_recall(points, rows):
    """By set intersection with brute force, on every fifth point; the data holds no two equal distances."""
    true = brute_force(points, points[::5], rows.shape[1])
    return np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(true, rows[::5], strict=True)])


def table_at(path, states, num_pairs=None, config=APPROXIMATE, key=KEY):
    return build_table(path, states, num_pairs or len(states), key, config, quiet=True)


@pytest.mark.parametrize(("points", "name"), [(easy(), "easy"), (hard(), "hard")])
def test_reported_recall_is_the_true_recall(tmp_path, points, name):
    table = table_at(tmp_path / "t", points)
    everywhere = true_recall(points, np.asarray(table.rows))
    assert table.report.method == "lists"
    assert table.report.sampled == 300
    assert abs(table.report.recall - everywhere) < 0.01
    assert table.report.reached
    assert everywhere > 0.98


def test_a_target_that_cannot_be_met_is_said_and_stored(tmp_path):
    points = hard()
    capped = dataclasses.replace(APPROXIMATE, max_probes=8)
    with pytest.warns(PloffWarning, match=r"target 0.99: NOT reached"):
        table = table_at(tmp_path / "t", points, config=capped)
    assert not table.report.reached
    assert abs(table.report.recall - true_recall(points, np.asarray(table.rows))) < 0.02
    assert not load_table(tmp_path / "t", KEY).report.reached


def test_recall_does_not_count_duplicates_as_misses(tmp_path):
    points = np.repeat(easy(200), 30, axis=0)  # 30 copies, 10 asked for: any ten are right
    table = table_at(tmp_path / "t", points)
    assert table.report.recall == 1.0


def test_a_state_is_its_own_first_neighbor_even_among_many_copies(tmp_path):
    points = np.repeat(easy(50), 30, axis=0)
    for config in (APPROXIMATE, SearchConfig(num_neighbors=10)):
        rows = table_at(tmp_path / "t", points, config=config).rows
        np.testing.assert_array_equal(rows[:, 0], np.arange(len(points)))
        assert all(len(set(row)) == 10 for row in rows.tolist())


def test_states_without_an_action_have_neighbors_but_are_none(tmp_path):
    states = easy(900)
    for config in (dataclasses.replace(APPROXIMATE, target_recall=1.0), SearchConfig(num_neighbors=10)):
        rows = np.asarray(table_at(tmp_path / "t", states, num_pairs=800, config=config).rows)
        assert rows.shape == (900, 10)
        assert rows.max() < 800
        np.testing.assert_array_equal(rows[800:], brute_force(states[:800], states[800:], 10))


def test_rows_are_ordered_by_distance(tmp_path):
    points = easy()
    rows = np.asarray(table_at(tmp_path / "t", points).rows)
    distances = np.square(points[:, None] - points[rows]).sum(axis=-1)
    assert np.all(np.diff(distances, axis=1) >= -1e-6)


def test_more_neighbors_than_points_are_all_points(tmp_path):
    table = table_at(tmp_path / "t", easy(7), config=SearchConfig(num_neighbors=50))
    assert table.rows.shape == (7, 7)
    np.testing.assert_array_equal(np.sort(table.rows, axis=1), np.tile(np.arange(7), (7, 1)))


def test_a_table_is_mapped_int32_and_reads_back(tmp_path):
    points = easy(300)
    made = table_at(tmp_path / "t", points, config=SearchConfig(num_neighbors=10))
    read = load_table(tmp_path / "t", KEY)
    assert isinstance(read.rows, np.memmap)
    assert read.rows.dtype == np.int32
    assert read.report == made.report
    assert (tmp_path / "t").stat().st_size == HEADER_BYTES + 300 * 10 * 4


@pytest.mark.parametrize("wrong", ["metric", "dataset"])
def test_a_table_of_another_metric_or_dataset_is_refused_by_name(tmp_path, wrong):
    table_at(tmp_path / "t", easy(100))
    other = dataclasses.replace(KEY, **{wrong: "another"})
    with pytest.raises(PloffError, match=f"made with another {wrong}") as refusal:
        load_table(tmp_path / "t", other)
    assert str(tmp_path / "t") in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kept", [0, 100, HEADER_BYTES, HEADER_BYTES + 399])
def test_a_cut_off_table_is_refused(tmp_path, kept):
    path = tmp_path / "t"
    table_at(path, easy(100))
    os.truncate(path, kept)
    with pytest.raises(PloffError, match=r"damaged") as refusal:
        load_table(path, KEY)
    assert str(path) in str(refusal.value)


def test_a_file_that_is_no_table_is_refused(tmp_path):
    path = tmp_path / "t"
    path.write_text('{"some": "json"}\n')
    with pytest.raises(PloffError, match="not a file of this version of ploff"):
        load_table(path, KEY)


def test_an_interrupted_build_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("ploff.neighbors.table._self_first", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        table_at(tmp_path / "t", easy())
    assert list(pathlib.Path(tmp_path).iterdir()) == []


def test_a_metric_that_gives_nan_is_refused(tmp_path):
    states = easy(100)
    states[3, 2] = np.nan
    with pytest.raises(PloffError, match="NaN"):
        table_at(tmp_path / "t", states)


def test_reaching_the_target_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table_at(tmp_path / "t", easy())


def test_another_log_has_another_fingerprint_and_units_do_not_count(tmp_path):
    data = log()
    assert TableKey.of("m", data) == TableKey.of("m", data.with_normalized_observations().with_unit_rewards())
    find_neighbors(tmp_path / "t", Euclidean(), data, TableKey.of("m", data), quiet=True)
    with pytest.raises(ValueError, match="another dataset"):
        load_table(tmp_path / "t", TableKey.of("m", log(seed=1)))


def test_a_flipped_bit_in_the_rows_is_refused(tmp_path):
    states = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    path, key = tmp_path / "t", TableKey("metric", "dataset")
    build_table(path, states, 40, key, quiet=True)
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with pytest.raises(PloffError, match=f"damaged: {path}"):
        load_table(path, key)
