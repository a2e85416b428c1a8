"""Approximate search with faiss's inverted lists.

Shapes: N points, L lists, Q queries, k neighbours, E embedding.
"""

import math

import faiss
import numpy as np
from jaxtyping import Float, Int

from ploff.neighbors.exhaustive import Exhaustive, checked, matrix_products, on_all_cores, use_all_cores

LIST_SIZE = 40  # points
ROUNDS, SAMPLE_PER_PART = 5, 64  # of k-means
FIRST_PROBES = 16
MANY_LISTS = 4_096  # up to so many, each is compared with each
AROUND_HOME = 4  # a query chooses its lists among so many times as many


class InvertedLists:
    """Compares a query with the points of its `probes` nearest lists.

    Lists are short, so that few points are scanned in vain, and hence many. Neither finding their centres (k-means in
    two levels) nor choosing among them (a point that has a list chooses among that list's nearest) looks at them all.
    """

    def __init__(self, points: Float[np.ndarray, "N E"], seed: int = 0):
        use_all_cores()
        self.points = np.ascontiguousarray(points, np.float32)
        self.homes = _short_lists(self.points, seed)  # [N]: the list that each point is in
        self.order = np.argsort(self.homes, kind="stable")  # points list by list
        sizes = np.bincount(self.homes)
        firsts = np.cumsum(sizes) - sizes
        self.lists = len(sizes)
        self.probes = min(FIRST_PROBES, self.lists)
        self.centres = (np.add.reduceat(self.points[self.order], firsts) / sizes[:, None]).astype(np.float32)
        self._near = np.zeros((self.lists, 0), np.int64)
        self._flat = faiss.IndexFlatL2(self.points.shape[1])  # kept: the index only borrows it
        self._flat.add(self.centres)  # pyright: ignore[reportCallIssue]
        self._index = faiss.IndexIVFFlat(self._flat, self.points.shape[1], self.lists)
        self._index.is_trained = True
        rows, pointer = np.arange(len(self.points)), faiss.swig_ptr
        self._index.add_core(len(rows), pointer(self.points), pointer(rows), pointer(self.homes))

    def query(
        self, queries: Float[np.ndarray, "Q E"], k: int, homes: Int[np.ndarray, "Q"] | None = None
    ) -> Int[np.ndarray, "Q k"]:
        """The k nearest points found, nearest first.

        Args:
          queries: embedded states.
          k: neighbours of each.
          homes: the lists that the queries are in, in ascending order; the search is quicker for it.
        """
        queries = checked(queries, self.points)
        self._index.nprobe = self.probes
        lists = self._all_lists(queries) if homes is None else self._lists_near(queries, homes)
        found = self._index.search_preassigned(queries, k, lists, None)[1]  # pyright: ignore
        short = np.flatnonzero(found[:, -1] < 0)  # the lists scanned held fewer than k points
        if len(short):
            found[short] = Exhaustive(self.points).query(queries[short], k)
        return found.astype(np.int32)

    def _all_lists(self, queries: np.ndarray) -> Int[np.ndarray, "Q probes"]:
        with matrix_products():
            return self._flat.search(queries, self.probes)[1]  # pyright: ignore[reportCallIssue]

    def _lists_near(self, queries: np.ndarray, homes: np.ndarray) -> Int[np.ndarray, "Q probes"]:
        """The nearest lists of each query among those near its home, nearest first."""
        around = min(self.lists, AROUND_HOME * self.probes)
        if self._near.shape[1] != around:
            self._near = _nearest_centres(self.centres, around)
        starts = np.flatnonzero(np.diff(homes, prepend=-1))

        def choose(start: int, end: int) -> Int[np.ndarray, "q probes"]:
            home = homes[start]
            near, centre = self._near[home], self.centres[home]
            ranks = faiss.knn(queries[start:end] - centre, self.centres[near] - centre, self.probes)[1]
            return near[ranks]

        return np.concatenate(on_all_cores(choose, starts, [*starts[1:], len(homes)]))


def _nearest_centres(centres: Float[np.ndarray, "L E"], count: int) -> Int[np.ndarray, "L count"]:
    """The nearest centres of each, itself first; where there are many, by lists of centres."""
    if len(centres) <= MANY_LISTS:
        with matrix_products():
            return faiss.knn(centres, centres, count)[1]
    index = InvertedLists(centres)
    index.probes = min(index.lists, FIRST_PROBES + AROUND_HOME * math.ceil(count / LIST_SIZE))
    near = np.empty((len(centres), count), np.int64)
    near[index.order] = index.query(centres[index.order], count, index.homes[index.order])
    return near


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
