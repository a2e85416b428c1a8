"""Nearest neighbours among embedded states: exact where that is quick, short lists above, recall measured.

Shapes: N points that are searched, Q queries, k neighbours, E embedding.

The points are divided among lists by k-means; a query is compared with the `probes` lists nearest to its own. How many
are needed depends on the data, so it is measured: on sampled queries, against exhaustive search, more lists are
scanned until recall is at its target. A neighbour counts as found if it is as near as the true k-th, so that points
that lie on each other are not held against a search that returned the other one.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Int

from ploff.errors import PloffError
from ploff.neighbors.exhaustive import Exhaustive
from ploff.neighbors.lists import InvertedLists

MORE_PROBES = 1.25  # factor by which the effort goes up


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
            raise PloffError("neighbours, sample and max_probes must be at least 1")
        if not 0 < self.target_recall <= 1:
            raise PloffError(f"target_recall must lie in (0, 1], got {self.target_recall}")


@dataclasses.dataclass(frozen=True)
class Report:
    """How neighbours were found, and how many of the true ones they are."""

    method: str  # "exact" or "lists"
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
    truth = Truth.sample(points, queries, dataclasses.replace(config, sample=max(1, config.sample // 2)))
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
