import dataclasses
import os
import pathlib
import warnings

import numpy as np
import pytest

from ploff.errors import PloffError, PloffWarning
from ploff.neighbors import lists
from ploff.neighbors.exhaustive import exact_neighbours
from ploff.neighbors.lists import LIST_SIZE, nearest
from ploff.neighbors.search import (
    Exhaustive,
    InvertedLists,
    Report,
    SearchConfig,
    Truth,
    build_index,
    ranks_from_centre,
    squared_distances,
)
from ploff.neighbors.table import HEADER_BYTES, Source, build_table, load_table

APPROXIMATE = SearchConfig(neighbours=10, exact_work=0, sample=300)
SOURCE = Source(metric="this metric", dataset="this dataset")


def easy(count=4000, seed=0):
    """A noisy curve in 8 dimensions: every point's neighbours are in a list or two."""
    rng = np.random.default_rng(seed)
    along = rng.uniform(0, 20, (count, 1))
    return np.sin(along * np.arange(1, 9) / 4).astype(np.float32) + 0.01 * rng.normal(size=(count, 8)).astype(
        np.float32
    )


def hard(count=4000, seed=0):
    """Pure noise in 32 dimensions: neighbours are spread over all lists."""
    return np.random.default_rng(seed).normal(size=(count, 32)).astype(np.float32)


def brute_force(points, queries, k):
    """NumPy's answer, query by query in double precision."""
    points = points.astype(np.float64)
    squared = np.stack([np.square(points - x).sum(axis=1) for x in queries.astype(np.float64)])
    return np.argsort(squared, axis=1, kind="stable")[:, :k]


def true_recall(points, rows):
    """By set intersection with brute force, on every fifth point; the data holds no two equal distances."""
    true = brute_force(points, points[::5], rows.shape[1])
    return np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(true, rows[::5], strict=True)])


def table_at(path, states, acted=None, config=APPROXIMATE, source=SOURCE):
    return build_table(path, states, acted or len(states), source, config, quiet=True)


@pytest.mark.parametrize("points", [easy(800), hard(800)], ids=["easy", "hard"])
def test_exact_neighbours_equal_a_numpy_brute_force(points):
    queries = np.concatenate([points[:100], points[:50] + 0.01])
    found = Exhaustive(points).query(queries, 20)
    np.testing.assert_array_equal(found, brute_force(points, queries, 20))


def test_exact_neighbours_survive_two_far_clusters_that_rounding_would_blur():
    rng = np.random.default_rng(0)
    points = (1e-3 * rng.normal(size=(600, 16))).astype(np.float32)
    points[300:] += 1000
    np.testing.assert_array_equal(
        Exhaustive(points).query(points[::7], 10)[:, 1:], brute_force(points, points[::7], 10)[:, 1:]
    )


def test_exact_neighbours_survive_an_offset_that_matrix_products_would_lose():
    rng = np.random.default_rng(0)
    points = (100 + 1e-3 * rng.normal(size=(500, 32))).astype(np.float32)
    np.testing.assert_array_equal(
        Exhaustive(points).query(points, 10)[:, 1:], brute_force(points, points, 10)[:, 1:]
    )


@pytest.mark.parametrize(("points", "name"), [(easy(), "easy"), (hard(), "hard")])
def test_reported_recall_is_the_true_recall(tmp_path, points, name):
    table = table_at(tmp_path / "t", points)
    everywhere = true_recall(points, np.asarray(table.rows))
    assert table.report.method == "lists"
    assert table.report.sampled == 300
    assert abs(table.report.recall - everywhere) < 0.01
    assert table.report.reached
    assert everywhere > 0.98


def test_hard_data_gets_more_effort_than_easy_data():
    probes = {name: build_index(x, x, APPROXIMATE).probes for name, x in (("easy", easy()), ("hard", hard()))}  # pyright: ignore
    assert probes["hard"] > 2 * probes["easy"]


def test_a_target_that_cannot_be_met_is_said_and_stored(tmp_path):
    points = hard()
    capped = dataclasses.replace(APPROXIMATE, max_probes=8)
    with pytest.warns(PloffWarning, match=r"target 0.99: NOT reached"):
        table = table_at(tmp_path / "t", points, config=capped)
    assert not table.report.reached
    assert abs(table.report.recall - true_recall(points, np.asarray(table.rows))) < 0.02
    assert not load_table(tmp_path / "t", SOURCE).report.reached


def test_the_recall_message_never_contradicts_its_threshold():
    almost = Report("lists", 0.98999, 0.99, 1000, 8, 100)
    assert "0.9899 " in str(almost)
    assert "NOT reached" in str(almost)
    assert "NOT" not in str(dataclasses.replace(almost, recall=0.99))


def test_recall_counts_a_repeated_neighbour_once():
    points = easy(500)
    truth = Truth.sample(points, points, dataclasses.replace(APPROXIMATE, sample=50))
    repeated = np.repeat(truth.rows[:, None], 10, axis=1)
    np.testing.assert_allclose(truth.recall(points, repeated), 0.1)


def test_recall_does_not_count_duplicates_as_misses(tmp_path):
    points = np.repeat(easy(200), 30, axis=0)  # 30 copies, 10 asked for: any ten are right
    table = table_at(tmp_path / "t", points)
    assert table.report.recall == 1.0


def test_a_state_is_its_own_first_neighbour_even_among_many_copies(tmp_path):
    points = np.repeat(easy(50), 30, axis=0)
    for config in (APPROXIMATE, SearchConfig(neighbours=10)):
        rows = table_at(tmp_path / "t", points, config=config).rows
        np.testing.assert_array_equal(rows[:, 0], np.arange(len(points)))
        assert all(len(set(row)) == 10 for row in rows.tolist())


def test_states_without_an_action_have_neighbours_but_are_none(tmp_path):
    states = easy(900)
    for config in (dataclasses.replace(APPROXIMATE, target_recall=1.0), SearchConfig(neighbours=10)):
        rows = np.asarray(table_at(tmp_path / "t", states, acted=800, config=config).rows)
        assert rows.shape == (900, 10)
        assert rows.max() < 800
        np.testing.assert_array_equal(rows[800:], brute_force(states[:800], states[800:], 10))


def test_rows_are_ordered_by_distance(tmp_path):
    points = easy()
    rows = np.asarray(table_at(tmp_path / "t", points).rows)
    distances = np.square(points[:, None] - points[rows]).sum(axis=-1)
    assert np.all(np.diff(distances, axis=1) >= -1e-6)


def test_more_neighbours_than_points_are_all_points(tmp_path):
    table = table_at(tmp_path / "t", easy(7), config=SearchConfig(neighbours=50))
    assert table.rows.shape == (7, 7)
    np.testing.assert_array_equal(np.sort(table.rows, axis=1), np.tile(np.arange(7), (7, 1)))


def test_lists_that_hold_too_few_points_are_made_up_by_exhaustive_search():
    points = hard(200)
    index = InvertedLists(points)
    index.probes = 1
    found = index.query(points, 60)
    assert found.min() >= 0
    assert all(len(set(row)) == 60 for row in found.tolist())


@pytest.mark.parametrize("kind", ["easy", "hard", "two far clusters", "offset", "copies"])
def test_products_that_leave_points_out_leave_no_neighbour_out(kind):
    rng = np.random.default_rng(0)
    points = {"easy": easy(), "hard": hard(), "copies": np.repeat(easy(200), 20, axis=0)}.get(kind)
    if points is None:
        points = (1e-3 * rng.normal(size=(4000, 16))).astype(np.float32)
        points[2000 * (kind == "two far clusters") :] += 1000
    queries = points[::31]
    found, expected = exact_neighbours(points, queries, 10), Exhaustive(points).query(queries, 10)
    np.testing.assert_allclose(
        squared_distances(queries, points, found), squared_distances(queries, points, expected), rtol=1e-6
    )
    assert all(len(set(row)) == 10 for row in found.tolist())


def test_nearest_by_sorted_bits_equals_faiss_even_where_points_are_copies():
    points, queries = hard(300), hard(40, seed=1)
    np.testing.assert_array_equal(nearest(queries, points, 20), brute_force(points, queries, 20))
    copies = np.repeat(points, 3, axis=0)
    assert all(len(set(row)) == 20 for row in nearest(queries, copies, 20).tolist())


def test_large_products_are_cut_without_a_trace(monkeypatch):
    points, queries = hard(300), hard(40, seed=1)
    whole, sizes = nearest(queries, points, 20), []
    product = lists.faiss.pairwise_distances
    monkeypatch.setattr(lists, "PRODUCT", 7 * len(points))
    monkeypatch.setattr(
        lists.faiss, "pairwise_distances", lambda x, y: sizes.append(len(x) * len(y)) or product(x, y)
    )
    np.testing.assert_array_equal(nearest(queries, points, 20), whole)
    assert max(sizes) == lists.PRODUCT


def test_all_points_compared_is_exhaustive_search():
    points = hard(3000)
    index = InvertedLists(points)
    index.probes = index.lists + 100  # a list may hold fewer points than lists do on average
    np.testing.assert_array_equal(index.query(points[::50], 10), brute_force(points, points[::50], 10))


def test_the_guess_at_the_effort_is_near_to_what_is_needed():
    points = hard()
    index = InvertedLists(points)
    truth = Truth.sample(points, points, APPROXIMATE)
    homes = index.homes[truth.rows]
    ranks = ranks_from_centre(index, truth, homes)
    index.probes = 40
    found = truth.recall(points, index.query(truth.queries, 10, homes)).mean()
    assert abs((ranks < 40 * LIST_SIZE).mean() - found) < 0.05


def test_a_table_is_mapped_int32_and_reads_back(tmp_path):
    points = easy(300)
    made = table_at(tmp_path / "t", points, config=SearchConfig(neighbours=10))
    read = load_table(tmp_path / "t", SOURCE)
    assert isinstance(read.rows, np.memmap)
    assert read.rows.dtype == np.int32
    assert read.report == made.report
    assert (tmp_path / "t").stat().st_size == HEADER_BYTES + 300 * 10 * 4


@pytest.mark.parametrize("wrong", ["metric", "dataset"])
def test_a_table_of_another_metric_or_dataset_is_refused_by_name(tmp_path, wrong):
    table_at(tmp_path / "t", easy(100))
    other = dataclasses.replace(SOURCE, **{wrong: "another"})
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
        load_table(path, SOURCE)
    assert str(path) in str(refusal.value)


def test_a_file_that_is_no_table_is_refused(tmp_path):
    path = tmp_path / "t"
    path.write_text('{"some": "json"}\n')
    with pytest.raises(PloffError, match="not a table of neighbours"):
        load_table(path, SOURCE)


def test_an_interrupted_build_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ploff.neighbors.table._self_first", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        table_at(tmp_path / "t", easy())
    assert list(pathlib.Path(tmp_path).iterdir()) == []


def test_a_metric_that_gives_nan_is_refused(tmp_path):
    states = easy(100)
    states[3, 2] = np.nan
    with pytest.raises(PloffError, match="NaN"):
        table_at(tmp_path / "t", states)


def test_a_query_of_another_width_is_refused():
    with pytest.raises(PloffError, match="query width 5 != index width 8"):
        Exhaustive(easy(10)).query(np.zeros((1, 5), np.float32), 3)


def test_reaching_the_target_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table_at(tmp_path / "t", easy())
