"""Arrays with a row per transition: compared bit for bit, a block at a time, and laid where a device can share them."""

import math
from collections.abc import Iterable

import numpy as np

from ploff.utils.errors import DataError

ALIGNMENT = 64  # bytes; what XLA asks of memory that it is to share


def blocks(rows: np.ndarray | Iterable[np.ndarray], size: int = 65_536) -> Iterable[np.ndarray]:
    """Consecutive rows, a block at a time."""
    if isinstance(rows, np.ndarray):
        return (rows[start : start + size] for start in range(0, len(rows), size))
    return rows


def non_consecutive_successors(
    observations: np.ndarray, inside: np.ndarray, blocks: Iterable[np.ndarray], wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The wanted rows whose next observation is not the following row's state, and these observations."""
    rows, states, start = [np.zeros(0, int)], [observations[:0]], 0
    for block in blocks:
        here = slice(start, start + len(block))
        following = observations[start + 1 : start + 1 + len(block)]
        apart = ~inside[here]
        apart[: len(following)] |= ~rows_equal(block[: len(following)], following)
        apart &= wanted[here]
        rows.append(start + np.flatnonzero(apart))
        states.append(block[apart])
        start += len(block)
    return np.concatenate(rows), np.concatenate(states)


def aligned(rows: np.ndarray, more: np.ndarray | None = None) -> np.ndarray:
    """The rows, and `more` behind them, where a device that shares the memory can use them without a copy."""
    extra = 0 if more is None else len(more)
    if not extra and rows.flags.c_contiguous and rows.ctypes.data % ALIGNMENT == 0:
        return _read_only(rows.view())
    placed = empty_aligned((len(rows) + extra, *rows.shape[1:]), rows.dtype)
    placed[: len(rows)] = rows
    if more is not None:
        placed[len(rows) :] = more
    return _read_only(placed)


def empty_aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array to be filled, where a device that shares the memory can use it without a copy."""
    size = dtype.itemsize * math.prod(shape)
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False  # a device may be reading
    return array


def rows_equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which rows are the same bit for bit (so −0.0 ≠ 0.0, and a NaN equals itself)."""
    if a.dtype != b.dtype:
        raise DataError(f"observations are {b.dtype} but next_observations are {a.dtype}; log both in one type")
    x, y = (np.ascontiguousarray(z).view(f"u{z.dtype.itemsize}") for z in (a, b))
    return (x == y).all(axis=tuple(range(1, x.ndim)))
