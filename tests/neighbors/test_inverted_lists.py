import numpy as np

from neighbor_cases import brute_force, hard
from ploff.neighbors import inverted_lists
from ploff.neighbors.inverted_lists import InvertedLists, nearest


def test_lists_that_hold_too_few_points_are_made_up_by_exhaustive_search():
    points = hard(200)
    index = InvertedLists.build(points)
    index.probes = 1
    found = index.query(points, 60)
    assert found.min() >= 0
    assert all(len(set(row)) == 60 for row in found.tolist())


def test_nearest_by_sorted_bits_equals_faiss_even_where_points_are_copies():
    points, queries = hard(300), hard(40, seed=1)
    np.testing.assert_array_equal(nearest(queries, points, 20), brute_force(points, queries, 20))
    copies = np.repeat(points, 3, axis=0)
    assert all(len(set(row)) == 20 for row in nearest(queries, copies, 20).tolist())


def test_large_products_are_cut_without_a_trace(monkeypatch):
    points, queries = hard(300), hard(40, seed=1)
    whole, sizes = nearest(queries, points, 20), []
    product = inverted_lists.faiss.pairwise_distances
    monkeypatch.setattr(inverted_lists, "PRODUCT", 7 * len(points))
    monkeypatch.setattr(
        inverted_lists.faiss, "pairwise_distances", lambda x, y: sizes.append(len(x) * len(y)) or product(x, y)
    )
    np.testing.assert_array_equal(nearest(queries, points, 20), whole)
    assert max(sizes) == inverted_lists.PRODUCT


def test_all_points_compared_is_exhaustive_search():
    points = hard(3000)
    index = InvertedLists.build(points)
    index.probes = index.lists + 100  # a list may hold fewer points than lists do on average
    np.testing.assert_array_equal(index.query(points[::50], 10), brute_force(points, points[::50], 10))
