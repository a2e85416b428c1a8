"""The distance to a log that judges measure by: under a learned metric, or in plain L2."""

import dataclasses
import functools
from typing import Literal

import numpy as np
from jaxtyping import Int

from ploff.metric.quality import Embedding
from ploff.metric.train import LearnedMetric
from ploff.neighbors import DataDistance, Euclidean, SearchConfig, embed_logged_states, median_nn_distance
from ploff.neighbors.knn import build_index
from ploff.transitions import Transitions


@dataclasses.dataclass(frozen=True, eq=False)
class LogDistance:
    """A distance to a log, and how it is told from others."""

    logged: DataDistance
    kind: Literal["learned", "l2"]
    fingerprint: str

    @classmethod
    def l2(cls, data: Transitions) -> "LogDistance":
        """Plain L2 in standard deviations of the states."""
        seen = data.with_normalized_observations()
        return cls(_measured(Euclidean(), seen), "l2", Euclidean.fingerprint(seen))

    @classmethod
    def of(cls, learned: LearnedMetric, data: Transitions) -> "LogDistance":
        """A learned metric's."""
        return cls(_measured(learned.metric, learned.in_units_of(data)), "learned", learned.fingerprint)

    @functools.cached_property
    def median_nn_distance(self) -> float:
        """The median distance between neighbors in the log."""
        return median_nn_distance(self.logged)


def _measured(metric: Embedding, data: Transitions) -> DataDistance:
    states = np.asarray(embed_logged_states(metric, data.to_device()), np.float32)
    return DataDistance.init(metric, data, nearest_states(states, len(data)))


def nearest_states(states: np.ndarray, num_pairs: int) -> Int[np.ndarray, "M k"]:
    """The nearest acted states of every state, itself first, as `find_neighbors` has them in a file."""
    config = SearchConfig()
    points = np.ascontiguousarray(states[:num_pairs])
    found = build_index(points, states, config).query(states, min(config.num_neighbors, num_pairs))
    own, acted = np.arange(num_pairs), np.asarray(found[:num_pairs])
    missing = ~(acted == own[:, None]).any(axis=1)
    acted[missing, -1] = own[missing]  # pushed out by states that equal it
    order = np.argsort(acted != own[:, None], axis=1, kind="stable")
    return np.concatenate([np.take_along_axis(acted, order, axis=1), found[num_pairs:]]).astype(np.int32)
