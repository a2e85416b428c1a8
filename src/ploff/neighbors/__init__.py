"""Neighbours in a log, and the distance from an action to what was tried there.

source = Source.of(learned.fingerprint, data)
table = find_neighbours("run/neighbours.table", learned.metric, learned.in_units_of(data), source)
logged = DataDistance.init(learned.metric, learned.in_units_of(data), table.rows)
d = logged.distance(rows, actions)
"""

import os
import pathlib

from ploff.neighbors.distance import (
    DataDistance,
    Euclidean,
    LiveDistance,
    distances_to_others,
    embed_logged_pairs,
    embed_logged_states,
    exact_distance,
    slope,
    spacing,
    spread,
    state_distances,
)
from ploff.neighbors.search import Report, SearchConfig
from ploff.neighbors.table import NeighbourTable, Source, build_table, load_table
from ploff.quality import Embedding
from ploff.transitions import Transitions

__all__ = [
    "DataDistance",
    "Euclidean",
    "LiveDistance",
    "NeighbourTable",
    "Report",
    "SearchConfig",
    "Source",
    "build_table",
    "distances_to_others",
    "embed_logged_pairs",
    "embed_logged_states",
    "exact_distance",
    "find_neighbours",
    "load_table",
    "slope",
    "spacing",
    "spread",
    "state_distances",
]


def find_neighbours(
    path: str | os.PathLike[str],
    metric: Embedding,
    data: Transitions,
    source: Source,
    config: SearchConfig | None = None,
    *,
    quiet: bool = False,
) -> NeighbourTable:
    """The table at `path` if there is one, which must fit; otherwise makes it.

    Args:
      path: the table's file.
      metric: what embeds the states.
      data: the log, in the units that the metric takes.
      source: fingerprints of the metric and of the log as it was loaded.
      config: how many neighbours, and with what recall.
      quiet: show no progress.
    """
    if pathlib.Path(path).exists():
        return load_table(path, source)
    states = embed_logged_states(metric, data.to_device())
    return build_table(path, states, len(data), source, config, quiet=quiet)
