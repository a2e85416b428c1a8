import numpy as np
import pytest

from neighbor_cases import brute_force, easy, hard
from ploff.neighbors.exhaustive import Exhaustive, exact_neighbors
from ploff.neighbors.knn import squared_distances
from ploff.utils.errors import PloffError


@pytest.mark.parametrize("points", [easy(800), hard(800)], ids=["easy", "hard"])
def test_exact_neighbors_equal_a_numpy_brute_force(points):
    queries = np.concatenate([points[:100], points[:50] + 0.01])
    found = Exhaustive(points).query(queries, 20)
    np.testing.assert_array_equal(found, brute_force(points, queries, 20))


def test_exact_neighbors_survive_two_far_clusters_that_rounding_would_blur():
    rng = np.random.default_rng(0)
    points = (1e-3 * rng.normal(size=(600, 16))).astype(np.float32)
    points[300:] += 1000
    np.testing.assert_array_equal(
        Exhaustive(points).query(points[::7], 10)[:, 1:], brute_force(points, points[::7], 10)[:, 1:]
    )


def test_exact_neighbors_survive_an_offset_that_matrix_products_would_lose():
    rng = np.random.default_rng(0)
    points = (100 + 1e-3 * rng.normal(size=(500, 32))).astype(np.float32)
    np.testing.assert_array_equal(Exhaustive(points).query(points, 10)[:, 1:], brute_force(points, points, 10)[:, 1:])


@pytest.mark.parametrize("kind", ["easy", "hard", "two far clusters", "offset", "copies"])
def test_products_that_leave_points_out_leave_no_neighbor_out(kind):
    rng = np.random.default_rng(0)
    points = {"easy": easy(), "hard": hard(), "copies": np.repeat(easy(200), 20, axis=0)}.get(kind)
    if points is None:
        points = (1e-3 * rng.normal(size=(4000, 16))).astype(np.float32)
        points[2000 * (kind == "two far clusters") :] += 1000
    queries = points[::31]
    found, expected = exact_neighbors(points, queries, 10), Exhaustive(points).query(queries, 10)
    np.testing.assert_allclose(
        squared_distances(queries, points, found), squared_distances(queries, points, expected), rtol=1e-6
    )
    assert all(len(set(row)) == 10 for row in found.tolist())


def test_a_query_of_another_width_is_refused():
    with pytest.raises(PloffError, match="query width 5 != index width 8"):
        Exhaustive(easy(10)).query(np.zeros((1, 5), np.float32), 3)
