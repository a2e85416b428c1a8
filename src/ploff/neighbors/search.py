"""Nearest neighbours among embedded states: exact where that is quick, faiss's inverted lists above, recall measured.

Shapes: N points that are searched, Q queries, k neighbours, E embedding.

The points are divided among lists by k-means; a query scans the `probes` lists whose centres are nearest to it. How
many are needed depends on the data, so it is measured: on sampled queries, against exhaustive search, more lists are
scanned until recall is at its target. A neighbour counts as found if it is as near as the true k-th, so that points
that lie on each other are not held against a search that returned the other one.
"""

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any

import faiss
import numpy as np
from jaxtyping import Float, Int

from ploff.errors import PloffError

LIST_SIZE = 40  # points
ROUNDS, SAMPLE_PER_PART = 5, 64  # of k-means
FIRST_PROBES = 16
MORE_PROBES = 1.25  # factor by which the effort goes up
AROUND_HOME = 4  # a query chooses its lists among so many times as many


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """What is searched for, and how hard."""

    neighbours: int = 50  # k
    target_recall: float = 0.99  # least share of true neighbours that approximate search must find
    sample: int = 1_000  # queries that recall is measured on
    exact_work: float = 5e10  # multiplications up to which search is exhaustive: some seconds on two cores
    max_probes: int = 2_048  # lists that a query may scan at most
    seed: int = 0

    def __post_init__(self):
        if min(self.neighbours, self.sample, self.max_probes) < 1:
            raise ValueError("neighbours, sample and max_probes must be at least 1")
        if not 0 < self.target_recall <= 1:
            raise ValueError(f"target_recall must lie in (0, 1], got {self.target_recall}")


@dataclasses.dataclass(frozen=True)
class Report:
    """How neighbours were found, and how many of the true ones they are."""

    method: str  # "exact" or "ivf"
    recall: float  # measured on `sampled` queries; 1 by definition where exact
    target: float
    sampled: int  # 0 where exact
    probes: int  # lists scanned a query
    lists: int

    @property
    def reached(self) -> bool:
        """Whether recall is at its target."""
        return self.recall >= self.target

    def __str__(self) -> str:
        if self.method == "exact":
            return "exact: every point compared with every other"
        shown = math.floor(self.recall * 1e4) / 1e4  # down, so that a miss is never printed as a hit
        verdict = "reached" if self.reached else "NOT reached, no more lists are allowed"
        return (
            f"recall {shown:.4f} on {self.sampled:,} sampled states (target {self.target:g}: {verdict}); "
            f"{self.probes} of {self.lists:,} lists scanned"
        )


class Exhaustive:
    """Compares a query with every point. No error, no preparation."""

    def __init__(self, points: Float[np.ndarray, "N E"]):
        self.points = np.ascontiguousarray(points, np.float32)

    def query(self, queries: Float[np.ndarray, "Q E"], k: int) -> Int[np.ndarray, "Q k"]:
        """The k nearest points of each query, nearest first."""
        queries = _checked(queries, self.points)
        with direct_differences():
            return faiss.knn(queries, self.points, k)[1].astype(np.int32)


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
        queries = _checked(queries, self.points)
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
            with matrix_products():
                self._near = faiss.knn(self.centres, self.centres, around)[1]
        starts = np.flatnonzero(np.diff(homes, prepend=-1))

        def choose(start: int, end: int) -> Int[np.ndarray, "q probes"]:
            home = homes[start]
            near, centre = self._near[home], self.centres[home]
            ranks = faiss.knn(queries[start:end] - centre, self.centres[near] - centre, self.probes)[1]
            return near[ranks]

        return np.concatenate(_on_all_cores(choose, starts, [*starts[1:], len(homes)]))


def _short_lists(points: Float[np.ndarray, "N E"], seed: int) -> Int[np.ndarray, "N"]:
    """A list for each point, of about LIST_SIZE points that lie together: k-means, and k-means in each part."""
    rough = _k_means(points, max(1, round(math.sqrt(len(points) / LIST_SIZE))), seed)
    homes, taken = np.empty(len(points), np.int64), 0
    order = np.argsort(rough, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(rough[order])) + 1)

    def divide(rows: np.ndarray) -> np.ndarray:
        return _k_means(points[rows], max(1, len(rows) // LIST_SIZE), seed)

    for rows, fine in zip(parts, _on_all_cores(divide, parts), strict=True):
        used, homes_here = np.unique(fine, return_inverse=True)
        homes[rows] = taken + homes_here
        taken += len(used)
    return homes


def _on_all_cores(function: Callable[..., np.ndarray], *arguments: Iterable[Any]) -> list[np.ndarray]:
    """`function` of many small problems, each on one core: threads inside a small problem wait more than they work."""
    alone = functools.partial(faiss.omp_set_num_threads, 1)
    with matrix_products(), futures.ThreadPoolExecutor(_cores(), initializer=alone) as pool:
        return list(pool.map(function, *arguments))


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


Index = Exhaustive | InvertedLists


@dataclasses.dataclass(frozen=True)
class Truth:
    """Queries whose true neighbours are known."""

    rows: Int[np.ndarray, "Q"]  # where the queries are among all
    queries: Float[np.ndarray, "Q E"]
    reach: Float[np.ndarray, "Q"]  # squared distance of the true k-th neighbour

    @classmethod
    def sample(cls, points: np.ndarray, queries: np.ndarray, config: SearchConfig, part: int = 0) -> "Truth":
        """Samples queries and searches exhaustively for them; different parts are independent samples."""
        rng = np.random.default_rng((config.seed, part))
        rows = np.sort(rng.choice(len(queries), min(config.sample, len(queries)), replace=False))
        chosen = np.asarray(queries[rows], np.float32)
        nearest = Exhaustive(points).query(chosen, min(config.neighbours, len(points)))
        return cls(rows, chosen, squared_distances(chosen, points, nearest).max(axis=1))

    def recall(self, points: np.ndarray, found: Int[np.ndarray, "Q k"]) -> Float[np.ndarray, "Q"]:
        """The share of each query's k neighbours that are as near as they could be; a repeated one counts once."""
        ordered = np.sort(found, axis=1)
        distances = squared_distances(self.queries, points, ordered)
        near = distances <= self.reach[:, None] * (1 + 1e-5)
        near[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        return near.mean(axis=1)


def squared_distances(
    queries: Float[np.ndarray, "Q E"], points: Float[np.ndarray, "N E"], rows: Int[np.ndarray, "Q k"]
) -> Float[np.ndarray, "Q k"]:
    """‖x − y‖² between each query and the points that its row names, from differences."""
    return np.stack([np.square(points[near] - x).sum(axis=1) for x, near in zip(queries, rows, strict=True)])


def build_index(
    points: Float[np.ndarray, "N E"], queries: Float[np.ndarray, "Q E"], config: SearchConfig
) -> Index:
    """An index over the points that answers these queries quickly: exhaustive, or tuned to its target."""
    if float(len(queries)) * points.size <= config.exact_work:
        return Exhaustive(points)
    index = InvertedLists(points, config.seed)
    truth = Truth.sample(points, queries, config)
    while not _surely_reached(truth.recall(points, index.query(truth.queries, config.neighbours)), config):
        if not raise_effort(index, config):
            break
    return index


def raise_effort(index: InvertedLists, config: SearchConfig) -> bool:
    """Lets the index scan more lists, or returns False if it scans all that it may."""
    most = min(config.max_probes, index.lists)
    if index.probes >= most:
        return False
    index.probes = min(most, math.ceil(MORE_PROBES * index.probes))
    return True


def _surely_reached(recall: Float[np.ndarray, "Q"], config: SearchConfig) -> bool:
    """Two standard errors above the target (or perfect), so that another sample will agree."""
    error = recall.std() / math.sqrt(len(recall))
    return bool(recall.mean() - 2 * error >= min(config.target_recall, 1.0) or recall.min() == 1)


def _checked(queries: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Queries as faiss takes them."""
    if queries.shape[1:] != points.shape[1:]:
        raise PloffError(
            f"query width {queries.shape[-1]} != index width {points.shape[-1]}: was it built from another metric?"
        )
    use_all_cores()
    return np.ascontiguousarray(queries, np.float32)


def use_all_cores() -> None:
    """Lets faiss use the cores that this process may use, whatever another library has set."""
    faiss.omp_set_num_threads(_cores())


def _cores() -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return available or 1


@contextlib.contextmanager
def matrix_products() -> Iterator[None]:
    """Distances as ‖x‖² + ‖y‖² − 2xy: four times quicker here, and exact enough to choose among centres."""
    with _products_from(0):
        yield


@contextlib.contextmanager
def direct_differences() -> Iterator[None]:
    """Distances as ‖x − y‖², without the cancellation that reorders neighbours far nearer than the data is wide."""
    with _products_from(2**31 - 1):
        yield


@contextlib.contextmanager
def _products_from(queries: int) -> Iterator[None]:
    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = queries
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
