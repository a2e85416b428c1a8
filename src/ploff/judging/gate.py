r"""The gate: which actions are outside of the evidence, at a known rate of false alarms.

An action's distance to the data is held against a threshold, and the threshold is the one that logged actions of *new
episodes* exceed at the wanted rate. Rows of one episode are alike, so episodes are what is left out, twice over: a
row's distance is to the pairs of other episodes, and the threshold for a rate α is the pooled distances' quantile at
the level 1 − α' at which the episodes that the quantile did not see are flagged at the rate α.

Shapes: R rows, k neighbors, E episodes.
"""

import dataclasses
import os
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from ploff.judging.neighbor_chain import distances_to
from ploff.neighbors import DataDistance, SearchConfig, embed_logged_states
from ploff.neighbors.knn import build_index
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.errors import DataError, PloffError

FORMAT = "ploff gate 1"
RATES = (0.01, 0.05, 0.1)
RATE = 0.05  # what is meant where none is named
FOLDS = 10
MAX_ROWS = 20_000
MAX_GROUPS = 200
BISECTIONS = 20


@dataclasses.dataclass(frozen=True)
class Gate:
    """Thresholds on the distance to the data, by the rate of false alarms on new episodes of the log's kind."""

    thresholds: dict[str, float]  # by rate, as text
    distance: Literal["learned", "l2"]
    metric: str  # fingerprints of the metric and of the log that distances are to
    dataset: str
    episodes: int  # that it was calibrated on
    rows: int

    def threshold(self, rate: float = RATE) -> float:
        """The distance beyond which an action is outside of the evidence."""
        name = f"{rate:g}"
        if name not in self.thresholds:
            raise PloffError(f"this gate knows false-alarm rates of {', '.join(self.thresholds)}, not {name}")
        return self.thresholds[name]

    def outside(self, distances: Any, rate: float = RATE) -> Bool[np.ndarray, "R"]:
        """Whether actions at these distances are outside of the evidence."""
        return np.asarray(distances) > self.threshold(rate)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as JSON."""
        files.write_json(path, {"format": FORMAT, **dataclasses.asdict(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Gate":
        """Reads what `save` wrote."""
        content = files.read_json(path)
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise PloffError(f"{path} is not a gate that this version reads; `ploff judge` makes it anew")
        return cls(**content)


@dataclasses.dataclass(frozen=True, eq=False)
class OtherEpisodes:
    """Rows of a log, and for each the neighboring rows of other episodes: a log seen as a new episode sees it."""

    rows: Int[np.ndarray, "R"]
    owners: Int[np.ndarray, "R"]  # episodes
    neighbors: Int[np.ndarray, "R k"]
    distances: Float[np.ndarray, "R"]  # of the logged actions

    @classmethod
    def of(cls, logged: DataDistance, data: Transitions, seed: int = 0, max_rows: int = MAX_ROWS) -> "OtherEpisodes":
        """Searches among the episodes of other folds.

        Args:
          logged: the distance to the log.
          data: the log on the host.
          seed: of the division into folds, and of the rows.
          max_rows: rows to measure, evenly over the log.
        """
        lengths = data.episode_lengths()
        owners, folds = np.repeat(np.arange(len(lengths)), lengths), min(FOLDS, len(lengths))
        if folds < 2:
            raise DataError(f"{data.origin.name} has one episode; a gate is calibrated on several")
        fold_of = np.random.default_rng(seed).permutation(np.arange(len(lengths)) % folds)
        rows = np.arange(0, len(data), max(1, -(-len(data) // max_rows)))
        states = np.asarray(embed_logged_states(logged.metric, logged.data), np.float32)[: len(data)]
        k = logged.neighbors.shape[1]
        neighbors = np.zeros((len(rows), k), np.int32)
        for fold in range(folds):
            inside, others = fold_of[owners[rows]] == fold, np.flatnonzero(fold_of[owners] != fold)
            points = np.ascontiguousarray(states[others])
            if inside.any():
                found = build_index(points, states, SearchConfig()).query(states[rows[inside]], min(k, len(others)))
                neighbors[inside] = np.resize(others[found].T, (k, len(found))).T  # few others: some twice
        actions = np.asarray(data.actions)[rows]
        least = distances_to(logged, actions, rows, neighbors).min(axis=1)
        return cls(rows, owners[rows], neighbors, least)


def calibrate_thresholds(
    distances: Float[np.ndarray, "R"], owners: Int[np.ndarray, "R"], rates: tuple[float, ...] = RATES
) -> dict[str, float]:
    """The threshold of each rate; see the module's text."""
    order = np.argsort(distances, kind="stable")
    ordered, episodes = distances[order], owners[order]
    groups = np.unique(episodes, return_inverse=True)[1] % MAX_GROUPS  # whole episodes, some together in long logs
    owned = groups[:, None] == np.arange(groups.max() + 1)  # [R, E]
    counts = owned.sum(axis=0)
    before = np.cumsum(owned, axis=0, dtype=np.int32)  # how many of each episode's own are at most this distance
    rank = np.arange(1, len(ordered) + 1)[:, None] - before  # a distance's rank among the other episodes
    return {f"{rate:g}": _threshold(ordered, rank, before, counts, rate) for rate in rates}


def false_alarm_rate(rank: np.ndarray, before: np.ndarray, counts: np.ndarray, level: float) -> float:
    """The share of rows beyond the quantile at 1 − level of the other episodes' distances."""
    others = len(rank) - counts
    place = np.argmax(rank >= np.ceil((1 - level) * others), axis=0)
    return float(np.sum(counts - before[place, np.arange(len(counts))]) / np.sum(counts))


def _threshold(ordered: np.ndarray, rank: np.ndarray, before: np.ndarray, counts: np.ndarray, rate: float) -> float:
    low, high = 0.0, 1.0  # levels of the quantile
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if false_alarm_rate(rank, before, counts, middle) > rate else (middle, high)
    return float(np.quantile(ordered, 1 - low, method="higher"))


def calibrate_gate(
    logged: DataDistance, data: Transitions, *, kind: Literal["learned", "l2"], metric: str, seed: int = 0
) -> tuple[Gate, OtherEpisodes]:
    """Calibrates the gate of a log on its own episodes, each unseen by what it is held against.

    Args:
      logged: the distance to the log.
      data: the log on the host.
      kind: of the distance.
      metric: its fingerprint.
      seed: of the division of episodes.

    Returns:
      The gate, and the rows that it was calibrated on.
    """
    others = OtherEpisodes.of(logged, data, seed)
    thresholds = calibrate_thresholds(others.distances, others.owners)
    count = len(np.unique(others.owners))
    return Gate(thresholds, kind, metric, data.fingerprint(), count, len(others.rows)), others
