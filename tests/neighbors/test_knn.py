import dataclasses

import numpy as np

from neighbor_cases import APPROXIMATE, easy, hard
from ploff.neighbors.inverted_lists import LIST_SIZE, InvertedLists
from ploff.neighbors.knn import GroundTruth, SearchReport, build_index, ranks_from_center


def test_hard_data_gets_more_effort_than_easy_data():
    probes = {name: build_index(x, x, APPROXIMATE).probes for name, x in (("easy", easy()), ("hard", hard()))}  # pyright: ignore
    assert probes["hard"] > 2 * probes["easy"]


def test_the_recall_message_never_contradicts_its_threshold():
    almost = SearchReport("lists", 0.98999, 0.99, 1000, 8, 100)
    assert "0.9899 " in str(almost)
    assert "NOT reached" in str(almost)
    assert "NOT" not in str(dataclasses.replace(almost, recall=0.99))


def test_recall_counts_a_repeated_neighbor_once():
    points = easy(500)
    truth = GroundTruth.sample(points, points, dataclasses.replace(APPROXIMATE, sample=50))
    repeated = np.repeat(truth.rows[:, None], 10, axis=1)
    np.testing.assert_allclose(truth.recall(points, repeated), 0.1)


def test_the_guess_at_the_effort_is_near_to_what_is_needed():
    points = hard()
    index = InvertedLists.build(points)
    truth = GroundTruth.sample(points, points, APPROXIMATE)
    homes = index.homes[truth.rows]
    ranks = ranks_from_center(index, truth, homes)
    index.probes = 40
    found = truth.recall(points, index.query(truth.queries, 10, homes)).mean()
    assert abs((ranks < 40 * LIST_SIZE).mean() - found) < 0.05
