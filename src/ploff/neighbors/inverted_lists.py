"""Approximate search by short lists of points that lie together.

The queries of a list are answered together: they are compared, in one matrix product, with the points nearest to the
center of their list. These are looked for among the lists near to a part, which some dozens of lists that lie together
share. So nothing is chosen query by query, and nothing is compared with all points.

Shapes: N points, L lists, C centers, Q queries, k neighbors, E embedding.
"""

import math

import faiss
import numpy as np
from jaxtyping import Float, Int

from ploff.neighbors.exhaustive import checked, matrix_products, on_all_cores, use_all_cores

LIST_SIZE = 40  # points
PARTS = 2.5  # times the root of the number of lists
ROUNDS, SAMPLE_PER_PART = 5, 64  # of k-means
FIRST_PROBES = 16
POOL = 1.75  # lists that a list's points are looked for in, for each list's worth of them
OUTLYING = 0.85  # from its list's center, of how far the list looks: such a query is compared with more
ACROSS = 8  # times the lists of a part, those that its points may move to
ASSIGNED = 65_536  # points that are given their part at a time
LAID = 1_024  # lists that are laid at a time
PRODUCT = 1 << 26  # entries of one matrix product: idle states that are all alike share a list, however many


class InvertedLists:
    """Compares the queries of a list with the points nearest to its center, as many as `probes` lists hold.

    Lists are short, so that few points are compared in vain, and hence many: k-means in two levels finds their centers,
    and a list's points are found together with those of the other lists of its part. The few queries that lie at the
    edge of what their list looks at would miss many neighbors: they are compared with all that their part looks at.
    """

    def __init__(
        self,
        points: Float[np.ndarray, "N E"],
        homes: Int[np.ndarray, "N"],
        parts: Int[np.ndarray, "L"],
        probes: int = FIRST_PROBES,
    ):
        """Lays the points list by list.

        Args:
          points: what is searched.
          homes: the list of each point.
          parts: the part of each list.
          probes: how many lists' worth of points a query is compared with.
        """
        self.points = np.ascontiguousarray(points, np.float32)
        self.homes, self.parts = homes, parts
        self.order = np.argsort(self.homes, kind="stable")  # points list by list
        self.sizes = np.bincount(self.homes)
        self.firsts = np.cumsum(self.sizes) - self.sizes
        self.lists = len(self.sizes)
        self.probes = min(probes, self.lists)
        self._laid = np.empty_like(self.points)
        self.centers = np.empty((self.lists, self.points.shape[1]), np.float32)
        on_all_cores(self._lay, range(0, self.lists, LAID))

    @classmethod
    def build(cls, points: Float[np.ndarray, "N E"], seed: int = 0) -> "InvertedLists":
        """Finds the lists of points, by k-means in two levels."""
        use_all_cores()
        points = np.ascontiguousarray(points, np.float32)
        return cls(points, *_short_lists(points, seed))

    def _lay(self, first: int) -> None:
        """Lays the points of some lists one behind the other, and takes their means."""
        lists = slice(first, first + LAID)
        begin = self.firsts[first]
        end = begin + self.sizes[lists].sum()
        self._laid[begin:end] = self.points[self.order[begin:end]]
        self.centers[lists] = _centers(self._laid[begin:end], self.sizes[lists])

    def query(
        self, queries: Float[np.ndarray, "Q E"], k: int, homes: Int[np.ndarray, "Q"] | None = None
    ) -> Int[np.ndarray, "Q k"]:
        """The k nearest points found, nearest first.

        Args:
          queries: embedded states.
          k: neighbors of each.
          homes: the lists that the queries are in, where that is known; they are found otherwise.
        """
        queries = checked(queries, self.points)
        homes = self.homes_of(queries) if homes is None else homes
        together = np.argsort(homes, kind="stable")  # lists of a part follow each other
        groups = np.split(together, np.flatnonzero(np.diff(self.parts[homes[together]])) + 1)

        found = np.empty((len(queries), k), np.int32)

        def search(group: np.ndarray) -> None:
            found[group] = self._of_part(queries[group], homes[group], k)

        on_all_cores(search, groups)
        return found

    def homes_of(self, queries: Float[np.ndarray, "Q E"]) -> Int[np.ndarray, "Q"]:
        """The list whose center is nearest to each query."""
        with matrix_products():
            return faiss.knn(np.ascontiguousarray(queries, np.float32), self.centers, 1)[1][:, 0]

    def _of_part(self, queries: np.ndarray, homes: np.ndarray, k: int) -> Int[np.ndarray, "Q k"]:
        """The neighbors of queries whose lists are of one part, ordered by list."""
        begins = np.flatnonzero(np.diff(homes, prepend=-1))
        lists = slice(*np.searchsorted(self.parts, [self.parts[homes[0]], self.parts[homes[0]] + 1]))
        places = self._around(self.centers[lists], math.ceil(POOL * self.probes))
        if len(places) < k:
            places = np.arange(len(self._laid))
        wanted = min(len(places), max(k, self.probes * LIST_SIZE))
        middle = self.centers[homes[0]]
        pool, centers = self._laid.take(places, axis=0) - middle, self.centers[homes[begins]] - middle
        around = queries - middle
        found, outlying = np.empty((len(queries), k), np.int64), []
        for center, apart, begin, end in zip(
            centers, faiss.pairwise_distances(centers, pool), begins, np.append(begins[1:], len(homes)), strict=True
        ):
            limit = _about_smallest(apart, wanted)
            near = np.flatnonzero(apart <= limit)
            if len(near) < k:
                near = np.argpartition(apart, k - 1)[:k]
            # Around the list's center, where products of single precision tell near from nearer.
            mine = around[begin:end] - center
            found[begin:end] = places[near[nearest(mine, pool.take(near, axis=0) - center, k)]]
            outlying.append(begin + np.flatnonzero(np.square(mine).sum(axis=1) > OUTLYING**2 * limit))
        alone = np.concatenate(outlying)
        if len(alone):
            found[alone] = places[nearest(around[alone], pool, k)]
        return self.order[found]

    def _around(self, spots: Float[np.ndarray, "S E"], count: int) -> Int[np.ndarray, "P"]:
        """Where the points of all lists that are among the nearest, about `count`, to some spot are laid."""
        apart = faiss.pairwise_distances(spots - spots[0], self.centers - spots[0])
        near = np.flatnonzero((apart <= _about_smallest(apart, min(count, self.lists))).any(axis=0))
        sizes = self.sizes[near]
        # The slices of these lists, one behind the other.
        return np.arange(sizes.sum()) + np.repeat(self.firsts[near] - (np.cumsum(sizes) - sizes), sizes)


def _about_smallest(values: Float[np.ndarray, "*B N"], count: int) -> Float[np.ndarray, "*B 1"]:
    """About the `count`-th smallest of each row, judged by some of them; no bound if all are wanted."""
    if count >= values.shape[-1]:
        return np.full((*values.shape[:-1], 1), np.inf, values.dtype)
    every = max(1, min(8, count // 16))
    some = values[..., ::every]
    place = min(count // every, some.shape[-1] - 1)
    return np.partition(some, place, axis=-1)[..., place : place + 1]


def nearest(queries: Float[np.ndarray, "Q E"], points: Float[np.ndarray, "N E"], k: int) -> Int[np.ndarray, "Q k"]:
    """The k nearest points by matrix product, nearest first: twice as quick as `faiss.knn` where points are few."""
    rows = max(1, PRODUCT // len(points))
    if len(queries) > rows:
        return np.concatenate([nearest(queries[i : i + rows], points, k) for i in range(0, len(queries), rows)])
    squared = faiss.pairwise_distances(queries, points)
    near = np.flatnonzero(squared <= np.partition(squared, k - 1, axis=1)[:, k - 1 : k])
    if len(near) != k * len(queries):  # some are equally far
        return faiss.knn(queries, points, k)[1]
    # Floats that are not negative are ordered as their bits are: one sort takes the columns along.
    bits = np.maximum(squared.ravel()[near], 0).view(np.int32).astype(np.int64)
    keys = (bits << 32 | near % len(points)).reshape(-1, k)
    keys.sort(axis=1)
    return keys & 0xFFFFFFFF


def _short_lists(points: Float[np.ndarray, "N E"], seed: int) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "L"]]:
    """A list of about LIST_SIZE points for each point, and a part for each list: k-means, and k-means in each part."""
    means = _k_means(points, max(1, round(PARTS * math.sqrt(len(points) / LIST_SIZE))), seed)
    blocks = [points[i : i + ASSIGNED] for i in range(0, len(points), ASSIGNED)]
    rough = np.concatenate(on_all_cores(lambda block: _nearest_mean(block, means), blocks))
    order = np.argsort(rough, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(rough[order])) + 1)

    def divide(rows: np.ndarray) -> np.ndarray:
        here = points[rows]
        fine = _nearest_mean(here, _k_means(here, max(1, len(rows) // LIST_SIZE), seed))
        sizes = np.bincount(fine)
        return _centers(here[np.argsort(fine, kind="stable")], sizes[sizes > 0])

    centers = on_all_cores(divide, parts)
    parts_of_lists = np.repeat(np.arange(len(parts)), [len(each) for each in centers])
    homes = _nearest_lists(points, parts, np.concatenate(centers))
    used = np.bincount(homes, minlength=len(parts_of_lists)) > 0
    return (np.cumsum(used) - 1)[homes], parts_of_lists[used]


def _nearest_lists(
    points: Float[np.ndarray, "N E"], parts: list[np.ndarray], centers: Float[np.ndarray, "L E"]
) -> Int[np.ndarray, "N"]:
    """The list of each point, among those near to its part: at the edge of a part it may be of another one."""
    count = min(len(centers), round(ACROSS * len(centers) / len(parts)))
    homes = np.empty(len(points), np.int64)

    def settle(rows: np.ndarray) -> None:
        here = points[rows]
        near = nearest(here.mean(axis=0, keepdims=True), centers, count)[0]
        homes[rows] = near[_nearest_mean(here, centers[near])]

    on_all_cores(settle, parts)
    return homes


def _centers(laid: Float[np.ndarray, "N E"], sizes: Int[np.ndarray, "L"]) -> Float[np.ndarray, "L E"]:
    """The mean of each list, of points that are laid list by list."""
    return (np.add.reduceat(laid, np.cumsum(sizes) - sizes) / sizes[:, None]).astype(np.float32)


def _k_means(points: Float[np.ndarray, "N E"], parts: int, seed: int) -> Float[np.ndarray, "parts E"]:
    """Means of the parts that points fall into, by a few rounds on a sample."""
    if parts == 1:
        return points.mean(axis=0, keepdims=True)
    if len(points) > parts * SAMPLE_PER_PART:  # faiss would copy and check all points before it samples
        rng = np.random.default_rng(seed)
        points = points[rng.choice(len(points), parts * SAMPLE_PER_PART, replace=False, shuffle=False)]
    middle = points.mean(axis=0)
    means = faiss.Kmeans(
        points.shape[1],
        parts,
        niter=ROUNDS,
        max_points_per_centroid=SAMPLE_PER_PART,
        min_points_per_centroid=1,
        seed=seed,
    )
    with matrix_products():
        means.train(points - middle)
    return means.centroids + middle  # pyright: ignore[reportOptionalOperand]


def _nearest_mean(points: Float[np.ndarray, "N E"], means: Float[np.ndarray, "parts E"]) -> Int[np.ndarray, "N"]:
    middle = means.mean(axis=0)
    with matrix_products():
        return faiss.knn(points - middle, means - middle, 1)[1][:, 0]
