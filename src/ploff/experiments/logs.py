"""The logs that jobs work on: loaded once a process, in the coordinates and under the metric that a job names."""

import dataclasses
import functools
import json
import pathlib
from typing import Any

from ploff import datasets
from ploff.agents import DistanceKind
from ploff.datasets.sources import source_of
from ploff.experiments.run_folder import data_note, is_l2, metric_folder, relevance_file
from ploff.metric.quality import Embedding
from ploff.metric.train import CHECKPOINT, load_metric
from ploff.neighbors import Euclidean, TableKey
from ploff.relevance import Relevance
from ploff.training.checkpoint import load_header
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.errors import PloffError

TABLE = "neighbors.table"
Arguments = dict[str, Any]

_provided: dict[str, Transitions] = {}  # logs that this process has loaded already, by task


def provide(task: str, data: Transitions) -> None:
    """Keeps a log that was loaded already, so that this process need not load it again."""
    _load.cache_clear()
    _provided.clear()
    _provided[task] = data


def load_data(arguments: Arguments, out: pathlib.Path) -> Transitions:
    """A task's data, which must be what the suite's other results were made from."""
    task = arguments["task"]
    data = load_task(task, arguments["reading"])
    refuse_changed_data(data, task, out)
    return data


def refuse_changed_data(data: Transitions, task: str, out: pathlib.Path) -> None:
    """Refuses data that are not those which a folder's results were made from."""
    note = data_note(out, task)
    if note.exists() and files.read_record(note)["fingerprint"] != data.fingerprint():
        raise PloffError(
            f"the data of {task} is not what it was when {out} was begun; choose another --out for what it is now"
        )


def load_task(task: str, reading: dict[str, Any]) -> Transitions:
    """A task's data, from this process's memory where it was loaded before."""
    return _load(task, json.dumps(reading, sort_keys=True))


@functools.lru_cache(maxsize=1)
def _load(task: str, reading: str) -> Transitions:
    if task in _provided:
        return _provided[task]
    return datasets.load(source_of(task).load, **json.loads(reading))


def seen_data(arguments: Arguments, out: pathlib.Path) -> Transitions:
    """A task's data in the coordinates that a job asks for."""
    return in_coordinates(load_data(arguments, out), arguments.get("relevance"), arguments["task"], out)


def in_coordinates(data: Transitions, relevance: str | None, task: str, out: pathlib.Path) -> Transitions:
    """The data with standardized columns, or in the coordinates of a relevance, by its job's key."""
    if relevance is None:
        return data.with_normalized_observations()
    return Relevance.load(relevance_file(out, task, relevance)).applied_to(data)


@dataclasses.dataclass(frozen=True)
class EmbeddedLog:
    """A metric, the log in its units, and the table of neighbors under it."""

    metric: Embedding
    data: Transitions
    key: TableKey
    table: pathlib.Path


def embedded_log(kind: DistanceKind, place: pathlib.Path, data: Transitions) -> EmbeddedLog:
    """The metric in a folder, learned or plain L2, with the log as it sees it; plain L2 sees `data` as it is."""
    if kind == "l2":
        return EmbeddedLog(Euclidean(), data, TableKey.of(Euclidean.fingerprint(data), data), place / TABLE)
    learned = load_metric(place)
    if load_header(place / CHECKPOINT)["dataset"] != data.fingerprint():
        raise PloffError(
            f"the metric in {place} was learned from another dataset than {data.origin.name}; "
            "name that one, or another folder"
        )
    key = TableKey.of(learned.fingerprint, data)
    return EmbeddedLog(learned.metric, learned.in_units_of(data), key, place / TABLE)


def embedded_data(arguments: Arguments, out: pathlib.Path) -> EmbeddedLog:
    """A task's data under the metric that a job names."""
    metric, data = arguments["metric"], load_data(arguments, out)
    place = metric_folder(out, arguments["task"], metric)
    if not is_l2(metric):
        return embedded_log("learned", place, data)
    relevance = metric.removeprefix("l2-") if metric != "l2" else None
    return embedded_log("l2", place, in_coordinates(data, relevance, arguments["task"], out))
