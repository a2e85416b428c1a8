"""The table of neighbours: for every state of a log, the k nearest states in which an action was taken.

One file: a line of JSON (what it was made from, how, and with what recall), then M × k rows as int32, which are mapped
into memory, not read. The first neighbour of a state in which an action was taken is that state itself; a state
behind them (an episode's last) has none of its own. The file appears under its name once it is whole.
"""

import dataclasses
import json
import os
import pathlib
import time
import warnings

import numpy as np
from jaxtyping import Float, Int

from ploff import storage
from ploff.cores import available_cores
from ploff.errors import PloffError, PloffWarning
from ploff.neighbors.exhaustive import on_all_cores
from ploff.neighbors.search import (
    Index,
    InvertedLists,
    Report,
    SearchConfig,
    Truth,
    build_index,
    raise_effort,
)
from ploff.progress import console, track
from ploff.transitions import Transitions

HEADER_BYTES = 4096
FORMAT = "ploff neighbours 1"
BATCH = 131_072
Array2D = Int[np.ndarray, "M k"]


@dataclasses.dataclass(frozen=True)
class Source:
    """Fingerprints of what a table was made from."""

    metric: str
    dataset: str

    @classmethod
    def of(cls, metric: str, data: Transitions) -> "Source":
        """The source of a table over `data`, as it was loaded, under the metric of that fingerprint."""
        arrays = (
            data.observations,
            data.actions,
            data.rewards,
            data.terminals,
            data.timeouts,
            data.successors,
        )
        return cls(metric=metric, dataset=storage.fingerprint(arrays))


@dataclasses.dataclass(frozen=True)
class NeighbourTable:
    """Rows of neighbours, nearest first, with how they were found."""

    rows: Int[np.ndarray, "M k"]
    report: Report


def build_table(
    path: str | os.PathLike[str],
    states: Float[np.ndarray, "M E"],
    acted: int,
    source: Source,
    config: SearchConfig | None = None,
    *,
    index: Index | None = None,
    found: Array2D | None = None,
    quiet: bool = False,
) -> NeighbourTable:
    """Finds the neighbours of every state and writes them to `path`.

    Args:
      path: the file to be made; one that is there already is replaced.
      states: Ψ of every state of the log; the first `acted` rows are those in which an action was taken.
      acted: N, the rows that may be neighbours.
      source: fingerprints of the metric and the dataset, kept in the file.
      config: how many neighbours, and with what recall.
      index: over the first `acted` states, if there is one already.
      found: what it answers for every state, if that was asked elsewhere; with too low a recall it is asked again here.
      quiet: show no progress.
    """
    config, began = config or SearchConfig(), time.monotonic()
    if not 0 < acted <= len(states):
        raise PloffError(f"neighbours need a logged action: {acted} actions, {len(states)} states")
    if not np.isfinite(states).all():
        raise PloffError("the metric gives NaN or infinity for some logged state; was its training cut off?")
    points = np.ascontiguousarray(states[:acted], np.float32)
    config = dataclasses.replace(config, neighbours=min(config.neighbours, acted))
    index = index or build_index(points, states, config)
    with storage.replacing(path) as partial:
        rows = _allocate(partial, len(states), config.neighbours)
        truth = Truth.sample(points, states, config, part=1) if isinstance(index, InvertedLists) else None
        while True:
            if found is not None:
                rows[:acted], rows[acted:] = _self_first(found[:acted], np.arange(acted)), found[acted:]
                found = None
            else:
                _fill(rows, states, acted, index, quiet)
            report = _report(rows, points, index, truth, config)
            if report.reached or not (isinstance(index, InvertedLists) and raise_effort(index, config)):
                break
        rows.flush()
        seconds = time.monotonic() - began
        _write_header(partial, rows, acted, source, report, seconds)
    if not report.reached:
        warnings.warn(f"{path}: {report}", PloffWarning, stacklevel=2)
    elif not quiet:
        console.print(f"neighbours of {len(states):,} states: {report}; {seconds:.0f} s", highlight=False)
    return load_table(path, source)


def load_table(path: str | os.PathLike[str], source: Source) -> NeighbourTable:
    """The table in a file, mapped into memory; refuses one that is damaged or made from anything else."""
    path = pathlib.Path(path)
    remedy = "delete it, and it is made anew"
    if not path.exists():
        raise PloffError(f"no table of neighbours at {path}; `find_neighbours` makes it")
    header = storage.load_header(path)
    if header.get("format") != FORMAT:
        raise PloffError(f"{path} is not a table of neighbours that this version reads; {remedy}")
    for name, wanted in dataclasses.asdict(source).items():
        if header[name] != wanted:
            raise PloffError(
                f"{path} was made with another {name} ({header[name]}, not {wanted}), so it is refused; {remedy}"
            )
    shape = (header["states"], header["neighbours"])
    expected, found = HEADER_BYTES + 4 * shape[0] * shape[1], path.stat().st_size
    if found != expected:
        raise PloffError(f"{path} is cut off or damaged: {found:,} bytes where {expected:,} belong; {remedy}")
    rows = np.memmap(path, np.int32, "r", HEADER_BYTES, shape)
    return NeighbourTable(rows, Report(**header["report"]))


def _allocate(path: pathlib.Path, states: int, neighbours: int) -> np.memmap:
    with open(path, "wb") as file:
        size = HEADER_BYTES + 4 * states * neighbours
        if hasattr(os, "posix_fallocate"):  # a full disk is an error here, not a crash when a page is written
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
    return np.memmap(path, np.int32, "r+", HEADER_BYTES, (states, neighbours))


def _fill(rows: Array2D, states: np.ndarray, acted: int, index: Index, quiet: bool) -> None:
    """Writes every state's neighbours, a batch of states that lie together at a time."""
    order = index.order if isinstance(index, InvertedLists) else np.arange(acted)
    with track("neighbours", len(states), quiet=quiet) as progress:
        for start in range(0, acted, BATCH):
            batch = order[start : start + BATCH]
            if isinstance(index, InvertedLists):
                found = index.query(states[batch], rows.shape[1], index.homes[batch])
            else:
                found = index.query(states[batch], rows.shape[1])
            _write(rows, batch, found)
            progress.update(start + len(batch))
        for start in range(acted, len(states), BATCH):  # no action was taken in these: they are in no list
            found = index.query(states[start : start + BATCH], rows.shape[1])
            rows[start : start + len(found)] = found
            progress.update(start + len(found))


def _write(rows: Array2D, states: Int[np.ndarray, "B"], found: Int[np.ndarray, "B k"]) -> None:
    """Writes what was found for states with an action, some on each core: it is a tenth of the work."""

    def write(part: slice) -> None:
        rows[states[part]] = _self_first(found[part], states[part])

    step = len(states) // (4 * len(available_cores())) + 1
    on_all_cores(write, [slice(i, i + step) for i in range(0, len(states), step)])


def _self_first(found: Int[np.ndarray, "B k"], own: Int[np.ndarray, "B"]) -> Int[np.ndarray, "B k"]:
    """Each state at the head of its own neighbours, even where many that equal it had pushed it out."""
    same = found == own[:, None]
    place = np.where(same.any(axis=1), same.argmax(axis=1), found.shape[1] - 1)
    column = np.arange(found.shape[1])
    shifted = np.concatenate([own[:, None], found[:, :-1]], axis=1)
    return np.where(column <= place[:, None], shifted, found).astype(np.int32)


def _report(
    rows: Array2D, points: np.ndarray, index: Index, truth: Truth | None, config: SearchConfig
) -> Report:
    """Recall of the rows as written, on states that the search was not tuned on."""
    if truth is None or not isinstance(index, InvertedLists):
        return Report("exact", 1.0, config.target_recall, 0, 0, 0)
    recall = float(truth.recall(points, rows[truth.rows]).mean())
    return Report("lists", recall, config.target_recall, len(truth.rows), index.probes, index.lists)


def _write_header(
    path: pathlib.Path, rows: Array2D, acted: int, source: Source, report: Report, seconds: float
) -> None:
    content = {
        "format": FORMAT,
        "states": rows.shape[0],
        "neighbours": rows.shape[1],
        "acted": acted,
        **dataclasses.asdict(source),
        "report": dataclasses.asdict(report),
        "seconds": round(seconds, 3),
    }
    line = json.dumps(content).encode().ljust(HEADER_BYTES - 1) + b"\n"
    with open(path, "r+b") as file:
        file.write(line)
