"""The table of neighbors: for every state of a log, the k nearest states in which an action was taken.

One file: a seal, a line of JSON (what it was made from, how, and with what recall), then M × k rows as int32, which are
mapped into memory, not read. The first neighbor of a state in which an action was taken is that state itself; a state
behind them (an episode's last) has none of its own. The file appears under its name once it is whole.
"""

import dataclasses
import json
import os
import pathlib
import time
import warnings
from collections.abc import Generator

import numpy as np
from jaxtyping import Float, Int

from ploff.neighbors.exhaustive import on_all_cores
from ploff.neighbors.knn import GroundTruth, Index, InvertedLists, SearchConfig, SearchReport, build_index, raise_effort
from ploff.training.checkpoint import check_content, open_sealed, seal
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.config import structure
from ploff.utils.cores import available_cores
from ploff.utils.errors import PloffError, PloffWarning
from ploff.utils.progress import Progress, follow

HEADER_BYTES = 4096
FORMAT = "ploff neighbors 3"
BATCH = 131_072
Rows = Int[np.ndarray, "M k"]


@dataclasses.dataclass(frozen=True)
class TableKey:
    """Fingerprints of what a table was made from."""

    metric: str
    dataset: str

    @classmethod
    def of(cls, metric: str, data: Transitions) -> "TableKey":
        """The key of a table over `data`, as it was loaded, under the metric of that fingerprint."""
        arrays = (data.observations, data.actions, data.rewards, data.terminals, data.timeouts, data.successors)
        return cls(metric=metric, dataset=files.fingerprint(arrays))


@dataclasses.dataclass(frozen=True)
class NeighborTable:
    """Rows of neighbors, nearest first, with how they were found."""

    rows: Int[np.ndarray, "M k"]
    report: SearchReport


def build_table(
    path: str | os.PathLike[str],
    states: Float[np.ndarray, "M E"],
    num_pairs: int,
    key: TableKey,
    config: SearchConfig | None = None,
    *,
    quiet: bool = False,
) -> NeighborTable:
    """Finds the neighbors of every state and writes them to `path`; the arguments are those of `search_table`."""
    return follow("neighbors", search_table(path, states, num_pairs, key, config), quiet=quiet)


def search_table(
    path: str | os.PathLike[str],
    states: Float[np.ndarray, "M E"],
    num_pairs: int,
    key: TableKey,
    config: SearchConfig | None = None,
    *,
    index: Index | None = None,
    found: Rows | None = None,
) -> Generator[Progress, None, NeighborTable]:
    """Finds the neighbors of every state and writes them to `path`, as a generator of its progress.

    Args:
      path: the file to be made; one that is there already is replaced.
      states: Ψ of every state of the log; the first `num_pairs` rows are those in which an action was taken.
      num_pairs: N, the rows that may be neighbors.
      key: fingerprints of the metric and the dataset, kept in the file.
      config: how many neighbors, and with what recall.
      index: over the first `num_pairs` states, if there is one already.
      found: what it answers for every state, if that was asked elsewhere; with too low a recall it is asked again here.
    """
    config, began = config or SearchConfig(), time.monotonic()
    if not 0 < num_pairs <= len(states):
        raise PloffError(f"neighbors need a logged action: {num_pairs} actions, {len(states)} states")
    if not np.isfinite(states).all():
        raise PloffError("the metric gives NaN or infinity for some logged state; was its training cut off?")
    yield Progress(0, len(states))
    points = np.ascontiguousarray(states[:num_pairs], np.float32)
    config = dataclasses.replace(config, num_neighbors=min(config.num_neighbors, num_pairs))
    index = index or build_index(points, states, config)
    truth = GroundTruth.sample(points, states, config, part=1) if isinstance(index, InvertedLists) else None
    with files.atomic_write(path) as partial:
        rows = _allocate(partial, len(states), config.num_neighbors)
        if found is not None:
            rows[:num_pairs], rows[num_pairs:] = (
                _self_first(found[:num_pairs], np.arange(num_pairs)),
                found[num_pairs:],
            )
        else:
            yield from _fill(rows, states, num_pairs, index)
        report = _report(rows, points, index, truth, config)
        while not report.reached and isinstance(index, InvertedLists) and raise_effort(index, config):
            yield from _fill(rows, states, num_pairs, index)
            report = _report(rows, points, index, truth, config)
        rows.flush()
        _write_header(partial, rows, num_pairs, key, report, time.monotonic() - began)
    if not report.reached:
        warnings.warn(f"{path}: {report}", PloffWarning, stacklevel=2)
    return load_table(path, key)


def load_table(path: str | os.PathLike[str], key: TableKey) -> NeighborTable:
    """Maps the table in a file into memory; refuses one that is damaged or made from anything else."""
    path = pathlib.Path(path)
    remedy = "delete it, and it is made anew"
    if not path.exists():
        raise PloffError(f"no table of neighbors at {path}; `find_neighbors` makes it")
    header, digest = open_sealed(path)
    if header.get("format") != FORMAT:
        raise PloffError(f"{path} is not a table of neighbors that this version reads; {remedy}")
    for name, wanted in dataclasses.asdict(key).items():
        if header[name] != wanted:
            raise PloffError(
                f"{path} was made with another {name} ({header[name]}, not {wanted}), so it is refused; {remedy}"
            )
    shape = (header["num_states"], header["num_neighbors"])
    expected, found = HEADER_BYTES + 4 * shape[0] * shape[1], path.stat().st_size
    if found != expected:
        raise PloffError(f"{path} is cut off or damaged: {found:,} bytes where {expected:,} belong; {remedy}")
    rows = np.memmap(path, np.int32, "r", HEADER_BYTES, shape)
    check_content(path, rows.data, digest)
    return NeighborTable(rows, structure(SearchReport, header["report"], "search report"))


def _allocate(path: pathlib.Path, num_states: int, num_neighbors: int) -> np.memmap:
    with open(path, "wb") as file:
        size = HEADER_BYTES + 4 * num_states * num_neighbors
        if hasattr(os, "posix_fallocate"):  # a full disk is an error here, not a crash when a page is written
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
    return np.memmap(path, np.int32, "r+", HEADER_BYTES, (num_states, num_neighbors))


def _fill(rows: Rows, states: np.ndarray, num_pairs: int, index: Index) -> Generator[Progress, None, None]:
    """Writes every state's neighbors, a batch of states that lie together at a time."""
    order = index.order if isinstance(index, InvertedLists) else np.arange(num_pairs)
    for start in range(0, num_pairs, BATCH):
        batch = order[start : start + BATCH]
        if isinstance(index, InvertedLists):
            found = index.query(states[batch], rows.shape[1], index.homes[batch])
        else:
            found = index.query(states[batch], rows.shape[1])
        _write(rows, batch, found)
        yield Progress(start + len(batch), len(states))
    for start in range(num_pairs, len(states), BATCH):  # no action was taken in these: they are in no list
        found = index.query(states[start : start + BATCH], rows.shape[1])
        rows[start : start + len(found)] = found
        yield Progress(start + len(found), len(states))


def _write(rows: Rows, states: Int[np.ndarray, "B"], found: Int[np.ndarray, "B k"]) -> None:
    """Writes what was found for states with an action, some on each core: it is a tenth of the work."""

    def write(part: slice) -> None:
        rows[states[part]] = _self_first(found[part], states[part])

    step = len(states) // (4 * len(available_cores())) + 1
    on_all_cores(write, [slice(i, i + step) for i in range(0, len(states), step)])


def _self_first(found: Int[np.ndarray, "B k"], own: Int[np.ndarray, "B"]) -> Int[np.ndarray, "B k"]:
    """Each state at the head of its own neighbors, even where many that equal it had pushed it out."""
    same = found == own[:, None]
    place = np.where(same.any(axis=1), same.argmax(axis=1), found.shape[1] - 1)
    column = np.arange(found.shape[1])
    shifted = np.concatenate([own[:, None], found[:, :-1]], axis=1)
    return np.where(column <= place[:, None], shifted, found).astype(np.int32)


def _report(
    rows: Rows, points: np.ndarray, index: Index, truth: GroundTruth | None, config: SearchConfig
) -> SearchReport:
    """Recall of the rows as written, on states that the search was not tuned on."""
    if truth is None or not isinstance(index, InvertedLists):
        return SearchReport("exact", 1.0, config.target_recall, 0, 0, 0)
    recall = float(truth.recall(points, rows[truth.rows]).mean())
    return SearchReport("lists", recall, config.target_recall, len(truth.rows), index.probes, index.lists)


def _write_header(
    path: pathlib.Path, rows: Rows, num_pairs: int, key: TableKey, report: SearchReport, seconds: float
) -> None:
    content = {
        "format": FORMAT,
        "num_states": rows.shape[0],
        "num_neighbors": rows.shape[1],
        "num_pairs": num_pairs,
        **dataclasses.asdict(key),
        "report": dataclasses.asdict(report),
        "seconds": round(seconds, 3),
    }
    line = json.dumps(content).encode()
    line = line.ljust(HEADER_BYTES - len(seal(b"", b"")) - 1) + b"\n"
    with open(path, "r+b") as file:
        file.write(seal(line, rows.data) + line)
