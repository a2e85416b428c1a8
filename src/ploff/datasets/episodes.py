"""Where a table's episodes end: flags, a column that changes, a file's last row, a gap in time."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from ploff.datasets import validate
from ploff.datasets.columns import FILE, seconds
from ploff.datasets.table_files import TableFiles
from ploff.schema import is_number, is_time
from ploff.utils.arrow import compute as pc
from ploff.utils.errors import DataError


def add_flags(
    files: TableFiles, columns: Mapping[str, list[str]], gap: str | None, arrays: dict[str, np.ndarray]
) -> None:
    """Fills in the flags that an episode column or a gap in time implies."""
    if "terminals" not in arrays:
        if gap is None and not {"timeouts", "episodes"} & set(columns):
            raise DataError(
                f"{files.source} has neither a terminal, a timeout nor an episode column; "
                "name one by --columns terminals=NAME, or give --gap or --horizon"
            )
        validate.warn(f"{files.source} has no terminal column: every episode counts as cut, none as ended")
        arrays["terminals"] = np.zeros(len(files.table), bool)
    terminals = validate.as_flags(files.source, "terminals", arrays["terminals"])
    changes = _changes(files, columns.get("episodes", ()))
    if "time" in columns:
        ended = terminals.copy() if changes is None else terminals | changes
        later = _time_gaps(files, columns["time"][0], gap, ended)
        if gap is not None:
            changes = later if changes is None else changes | later
    if changes is None:
        return
    if "timeouts" in arrays:  # the table marks its cuts itself: its last row may well be unmarked
        changes[-1] = False
        arrays["timeouts"] = validate.as_flags(files.source, "timeouts", arrays["timeouts"]) | (changes & ~terminals)
    else:
        arrays["timeouts"] = changes & ~terminals


def episode_starts(terminals: np.ndarray, timeouts: np.ndarray | None) -> np.ndarray:
    """Where an episode begins."""
    ends = np.asarray(terminals, bool) if timeouts is None else np.asarray(terminals, bool) | np.asarray(timeouts, bool)
    return np.concatenate([[True], ends[:-1]])


def _changes(files: TableFiles, names: Sequence[str]) -> np.ndarray | None:
    """The last row of each block of equal values; None without columns. A value must not come back."""
    if not names:
        return None
    count = len(files.table)
    keys = [_key(files, name) for name in names]
    changes = np.ones(count, bool)
    changes[:-1] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    lasts = np.flatnonzero(changes)
    blocks = np.stack([key[lasts] for key in keys], axis=1)
    _, block_of, counts = np.unique(blocks, axis=0, return_inverse=True, return_counts=True)
    if len(counts) < len(lasts):
        seen: set[int] = set()
        again = next(i for i, block in enumerate(block_of.ravel().tolist()) if block in seen or seen.add(block))
        row = int(lasts[again - 1]) + 1
        values = ", ".join(str(files.table.column(name)[row].as_py()) for name in names if name != FILE)
        sort = " and ".join(repr(name) for name in names if name != FILE)
        raise DataError(
            f"{files.source}: the rows of an episode are not together: {sort} comes back to {values} in "
            f"{files.place(row)}; sort by {sort}, or name what else tells episodes apart"
        )
    return changes


def _key(files: TableFiles, name: str) -> np.ndarray:
    """What an episode is known by, as whole numbers."""
    if name == FILE:
        return np.searchsorted(files.starts, np.arange(len(files.table)), side="right")
    column = files.table.column(name)
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise DataError(
            f"{files.source}: column {name!r} has gaps: every row belongs to an episode, that in {files.place(row)} "
            "to none"
        )
    column = column.combine_chunks()
    if pa.types.is_floating(column.type) and np.isnan(column.to_numpy()).any():
        raise DataError(f"{files.source}: column {name!r} holds NaN: every row belongs to an episode")
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    return encoded.indices.to_numpy(zero_copy_only=False)


def _time_gaps(files: TableFiles, name: str, gap: str | None, ended: np.ndarray) -> np.ndarray:
    """The rows after which the next comes later than the gap; within an episode, time must not go back."""
    times = _seconds(files, name)
    steps = np.diff(times, append=times[-1:])
    back = np.flatnonzero((steps < 0) & ~ended)
    if len(back):
        row = int(back[0]) + 1
        before, now = (files.table.column(name)[i].as_py() for i in (row - 1, row))
        raise DataError(
            f"{files.source} is not sorted: {name!r} goes back from {before} to {now} in {files.place(row)}; "
            f"sort by {name!r}, or name the column that tells episodes apart by --columns episodes=NAME"
        )
    later = np.zeros(len(times), bool) if gap is None else steps > seconds(gap)
    later[-1] = True
    return later


def _seconds(files: TableFiles, name: str) -> np.ndarray:
    """Times in seconds; numbers are in their own unit."""
    column = files.table.column(name)
    if not (is_time(column.type) or is_number(column.type)):
        raise DataError(
            f"{files.source}: column {name!r} holds {column.type}, first {column[0].as_py()!r} in {files.place(0)}; "
            "a time is written as 2024-01-31 12:00:00, or as a number"
        )
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise DataError(f"{files.source}: the time {name!r} is missing in {files.place(row)}; fill it in")
    if is_number(column.type):
        return column.to_numpy().astype(np.float64)
    return column.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() / 1e6
