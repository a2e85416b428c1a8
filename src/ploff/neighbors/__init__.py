"""Neighbors in a log, and the distance from an action to what was tried there.

key = TableKey.of(learned.fingerprint, data)
table = find_neighbors("run/neighbors.table", learned.metric, learned.in_units_of(data), key)
logged = DataDistance.init(learned.metric, learned.in_units_of(data), table.rows)
d = logged.distance(rows, actions)
"""

import os
import pathlib

from ploff.metric.quality import Embedding
from ploff.neighbors.distance import (
    DataDistance,
    Euclidean,
    OnlineDataDistance,
    action_sensitivity,
    action_spread,
    distances_to_others,
    embed_logged_pairs,
    embed_logged_states,
    exact_distance,
    median_nn_distance,
    neighborhood_radius,
    state_distances,
)
from ploff.neighbors.knn import SearchConfig, SearchReport
from ploff.neighbors.table import NeighborTable, TableKey, build_table, load_table
from ploff.transitions import Transitions

__all__ = [
    "DataDistance",
    "Euclidean",
    "NeighborTable",
    "OnlineDataDistance",
    "SearchConfig",
    "SearchReport",
    "TableKey",
    "action_sensitivity",
    "action_spread",
    "build_table",
    "distances_to_others",
    "embed_logged_pairs",
    "embed_logged_states",
    "exact_distance",
    "find_neighbors",
    "load_table",
    "median_nn_distance",
    "neighborhood_radius",
    "state_distances",
]


def find_neighbors(
    path: str | os.PathLike[str],
    metric: Embedding,
    data: Transitions,
    key: TableKey,
    config: SearchConfig | None = None,
    *,
    quiet: bool = False,
) -> NeighborTable:
    """Loads the table at `path` if there is one, which must fit; otherwise makes it.

    Args:
      path: the table's file.
      metric: what embeds the states.
      data: the log, in the units that the metric takes.
      key: fingerprints of the metric and of the log as it was loaded.
      config: how many neighbors, and with what recall.
      quiet: show no progress.
    """
    if pathlib.Path(path).exists():
        return load_table(path, key)
    states = embed_logged_states(metric, data.to_device())
    return build_table(path, states, len(data), key, config, quiet=quiet)
