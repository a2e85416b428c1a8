"""Approximate search by short lists of points that lie together.

Queries of one list are answered together: they are compared, in one matrix product, with the points of the lists
nearest to theirs. A list is a slice of the points laid list by list, so nothing is chosen query by query.

Shapes: N points, L lists, Q queries, k neighbours, E embedding.
"""

import math

import faiss
import numpy as np
from jaxtyping import Float, Int

from ploff.neighbors.exhaustive import Exhaustive, checked, matrix_products, on_all_cores, use_all_cores

LIST_SIZE = 40  # points
ROUNDS, SAMPLE_PER_PART = 5, 64  # of k-means
FIRST_PROBES = 32
MANY_LISTS = 4_096  # up to so many, each is compared with each


class InvertedLists:
    """Compares the queries of a list with the points of the `probes` lists nearest to it, itself included.

    Lists are short, so that few points are compared in vain, and hence many: neither finding their centres (k-means in
    two levels) nor ordering them by distance from each other (lists of lists) looks at all of them.
    """

    def __init__(self, points: Float[np.ndarray, "N E"], seed: int = 0):
        use_all_cores()
        self.points = np.ascontiguousarray(points, np.float32)
        self.homes = _short_lists(self.points, seed)  # [N]: the list that each point is in
        self.order = np.argsort(self.homes, kind="stable")  # points list by list
        self.sizes = np.bincount(self.homes)
        self.firsts = np.cumsum(self.sizes) - self.sizes
        self.lists = len(self.sizes)
        self.probes = min(FIRST_PROBES, self.lists)
        self._laid = self.points[self.order]
        self.centres = (np.add.reduceat(self._laid, self.firsts) / self.sizes[:, None]).astype(np.float32)
        self._near = np.zeros((self.lists, 0), np.int64)

    def query(
        self, queries: Float[np.ndarray, "Q E"], k: int, homes: Int[np.ndarray, "Q"] | None = None
    ) -> Int[np.ndarray, "Q k"]:
        """The k nearest points found, nearest first.

        Args:
          queries: embedded states.
          k: neighbours of each.
          homes: the lists that the queries are in, where that is known; they are found otherwise.
        """
        queries = checked(queries, self.points)
        homes = self._homes_of(queries) if homes is None else homes
        if self._near.shape[1] < self.probes:
            self._near = _nearest_centres(self.centres, min(self.lists, 2 * self.probes))
        together = np.argsort(homes, kind="stable")
        groups = np.split(together, np.flatnonzero(np.diff(homes[together])) + 1)

        def search(group: np.ndarray) -> np.ndarray:
            return self._of_list(queries[group], int(homes[group[0]]), k)

        found = np.empty((len(queries), k), np.int32)
        for group, rows in zip(groups, on_all_cores(search, groups), strict=True):
            found[group] = rows
        return found

    def _homes_of(self, queries: np.ndarray) -> Int[np.ndarray, "Q"]:
        with matrix_products():
            return faiss.knn(queries, self.centres, 1)[1][:, 0]

    def _of_list(self, queries: np.ndarray, home: int, k: int) -> Int[np.ndarray, "Q k"]:
        """The neighbours of queries that are in one list."""
        scanned = self._near[home, : self.probes]
        sizes = self.sizes[scanned]
        count = int(sizes.sum())
        if count < k:
            return Exhaustive(self.points).query(queries, k)
        # The slices of these lists, one behind the other.
        places = np.arange(count) + np.repeat(self.firsts[scanned] - (np.cumsum(sizes) - sizes), sizes)
        # Around the list's centre, where products of single precision tell near from nearer.
        centre = self.centres[home]
        return self.order[places[faiss.knn(queries - centre, self._laid[places] - centre, k)[1]]]


def _nearest_centres(centres: Float[np.ndarray, "L E"], count: int) -> Int[np.ndarray, "L count"]:
    """The nearest centres of each, itself first; where there are many, by lists of centres."""
    if len(centres) <= MANY_LISTS:
        with matrix_products():
            return faiss.knn(centres, centres, count)[1]
    index = InvertedLists(centres)
    index.probes = min(index.lists, FIRST_PROBES + 4 * math.ceil(count / LIST_SIZE))
    return index.query(centres, count, index.homes)


def _short_lists(points: Float[np.ndarray, "N E"], seed: int) -> Int[np.ndarray, "N"]:
    """A list for each point, of about LIST_SIZE points that lie together: k-means, and k-means in each part."""
    rough = _k_means(points, max(1, round(math.sqrt(len(points) / LIST_SIZE))), seed)
    homes, taken = np.empty(len(points), np.int64), 0
    order = np.argsort(rough, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(rough[order])) + 1)

    def divide(rows: np.ndarray) -> np.ndarray:
        return _k_means(points[rows], max(1, len(rows) // LIST_SIZE), seed)

    for rows, fine in zip(parts, on_all_cores(divide, parts), strict=True):
        used, homes_here = np.unique(fine, return_inverse=True)
        homes[rows] = taken + homes_here
        taken += len(used)
    return homes


def _k_means(points: Float[np.ndarray, "N E"], parts: int, seed: int) -> Int[np.ndarray, "N"]:
    """The part that each point is in, by a few rounds of k-means on a sample."""
    if parts == 1:
        return np.zeros(len(points), np.int64)
    centred = points - points.mean(axis=0)
    means = faiss.Kmeans(
        points.shape[1],
        parts,
        niter=ROUNDS,
        max_points_per_centroid=SAMPLE_PER_PART,
        min_points_per_centroid=1,
        seed=seed,
    )
    with matrix_products():
        means.train(centred)
        return faiss.knn(centred, means.centroids, 1)[1][:, 0]  # pyright: ignore[reportArgumentType]
