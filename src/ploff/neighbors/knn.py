"""Nearest neighbors among embedded states: exact where that is quick, short lists above, recall measured.

Shapes: N points that are searched, Q queries, k neighbors, E embedding.

The points are divided among short lists by k-means; the queries of a list are compared with the points nearest to its
center, as many as `probes` lists hold. How many are needed depends on the data, so it is measured: on sampled queries,
against exhaustive search, more points are compared until recall is at its target. A neighbor counts as found if it is
as near as the true k-th, so that points that lie on each other are not held against a search that returned the other
one.
"""

import dataclasses
import math

import faiss
import numpy as np
from jaxtyping import Float, Int

from ploff.neighbors.exhaustive import Exhaustive, exact_neighbors, on_all_cores
from ploff.neighbors.inverted_lists import LIST_SIZE, InvertedLists
from ploff.utils.config import check_counts, check_within

MORE_PROBES = 1.05  # factor by which the effort goes up
TUNED = 0.25  # share of the parts that the effort is tuned on
RANKED = 16_384  # points, spread over all, that a first guess at the effort looks at


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """What is searched for, and how hard."""

    num_neighbors: int = 50  # k
    target_recall: float = 0.99  # least share of true neighbors that approximate search must find
    sample: int = 1_000  # queries that recall is measured on
    exact_work: float = 5e10  # multiplications up to which search is exhaustive: some seconds on two cores
    max_probes: int = 2_048  # that a query may be compared with at most: lists, by the points they hold
    seed: int = 0

    def __post_init__(self):
        check_counts(self, "num_neighbors", "sample", "max_probes")
        check_within(self, "(0, 1]", "target_recall")


@dataclasses.dataclass(frozen=True)
class SearchReport:
    """How neighbors were found, and how many of the true ones they are."""

    method: str  # "exact" or "lists"
    recall: float  # measured on `sampled` queries; 1 by definition where exact
    target: float
    sampled: int  # 0 where exact
    probes: int  # lists, by the points they hold, that a query was compared with
    lists: int

    @property
    def reached(self) -> bool:
        """Whether recall is at its target."""
        return self.recall >= self.target

    def __str__(self) -> str:
        if self.method == "exact":
            return "exact: every point compared with every other"
        shown = math.floor(self.recall * 1e4) / 1e4  # down, so that a miss is never printed as a hit
        verdict = "reached" if self.reached else "NOT reached, no more effort is allowed"
        return (
            f"recall {shown:.4f} on {self.sampled:,} sampled states (target {self.target:g}: {verdict}); "
            f"each compared with as many points as {self.probes} of {self.lists:,} lists hold"
        )


Index = Exhaustive | InvertedLists


@dataclasses.dataclass(frozen=True)
class GroundTruth:
    """Queries whose true neighbors are known."""

    rows: Int[np.ndarray, "Q"]  # where the queries are among all
    queries: Float[np.ndarray, "Q E"]
    nearest: Int[np.ndarray, "Q k"]  # their true neighbors
    reach: Float[np.ndarray, "Q"]  # squared distance of the k-th

    @classmethod
    def sample(cls, points: np.ndarray, queries: np.ndarray, config: SearchConfig, part: int = 0) -> "GroundTruth":
        """Samples queries and searches exhaustively for them; different parts are independent samples."""
        rng = np.random.default_rng((config.seed, part))
        rows = rng.choice(len(queries), min(config.sample, len(queries)), replace=False)
        return cls.of(points, queries, rows, config)

    @classmethod
    def of(
        cls, points: np.ndarray, queries: np.ndarray, rows: Int[np.ndarray, "Q"], config: SearchConfig
    ) -> "GroundTruth":
        """Searches exhaustively for these queries."""
        rows = np.sort(rows)
        chosen = np.asarray(queries[rows], np.float32)
        nearest = exact_neighbors(points, chosen, min(config.num_neighbors, len(points)))
        return cls(rows, chosen, nearest, squared_distances(chosen, points, nearest).max(axis=1))

    def recall(self, points: np.ndarray, found: Int[np.ndarray, "Q k"]) -> Float[np.ndarray, "Q"]:
        """The share of each query's k neighbors that are as near as they could be; a repeated one counts once."""
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


def build_index(points: Float[np.ndarray, "N E"], queries: Float[np.ndarray, "Q E"], config: SearchConfig) -> Index:
    """An index over the points that answers these queries quickly: exhaustive, or tuned to its target.

    The first queries are the points themselves.
    """
    if float(len(queries)) * points.size <= config.exact_work:
        return Exhaustive(points)
    index = InvertedLists.build(points, config.seed)
    truth = GroundTruth.of(points, points, _from_some_parts(index, config), config)
    homes = index.homes[truth.rows]
    ranks = ranks_from_center(index, truth, homes)
    # A third of what such a guess misses lies around outlying queries, which the search takes care of.
    while 1 - (ranks < index.probes * LIST_SIZE).mean() > 1.5 * (1 - config.target_recall):
        if not raise_effort(index, config):
            break
    while not _surely_reached(truth.recall(points, index.query(truth.queries, config.num_neighbors, homes)), config):
        if not raise_effort(index, config):
            break
    return index


def _from_some_parts(index: InvertedLists, config: SearchConfig) -> Int[np.ndarray, "Q"]:
    """Points to tune on, of some parts only: a search costs as much by its parts as by its queries."""
    rng = np.random.default_rng((config.seed, 0))
    parts = int(index.parts.max()) + 1
    tried = np.isin(index.parts, rng.choice(parts, math.ceil(parts * TUNED), replace=False))
    rows = np.flatnonzero(tried[index.homes])
    return rng.choice(rows, min(config.sample, len(rows)), replace=False)


def ranks_from_center(
    index: InvertedLists, truth: GroundTruth, homes: Int[np.ndarray, "Q"]
) -> Float[np.ndarray, "Q k"]:
    """How many points are nearer to the center of a query's list than each of its true neighbors, about.

    A neighbor is found if its rank is below the number of points that a list is compared with, so this guesses the
    effort that a recall takes, without a search.
    """
    points, centers = index.points, index.centers[homes]
    some = np.ascontiguousarray(points[:: max(1, len(points) // RANKED)])
    wanted = squared_distances(centers, points, truth.nearest)

    def nearer(center: np.ndarray, squared: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.sort(faiss.pairwise_distances(center[None], some)[0]), squared)

    return np.stack(on_all_cores(nearer, centers, wanted)) * (len(points) / len(some))


def raise_effort(index: InvertedLists, config: SearchConfig) -> bool:
    """Lets the index compare more points, or returns False if it compares all that it may."""
    most = min(config.max_probes, index.lists)
    if index.probes >= most:
        return False
    index.probes = min(most, math.ceil(MORE_PROBES * index.probes))
    return True


def _surely_reached(recall: Float[np.ndarray, "Q"], config: SearchConfig) -> bool:
    """A standard error above the target (or perfect), so that another sample will agree, mostly."""
    error = recall.std() / math.sqrt(len(recall))
    return bool(recall.mean() - error >= min(config.target_recall, 1.0) or recall.min() == 1)
