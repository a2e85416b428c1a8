"""Observations as callers have them, checked, and acted on in batches of few sizes.

A compiled function is compiled anew for every number of rows. Rows are therefore padded up to the next size, so that a
caller whose batches are of all sizes compiles at most as often as there are sizes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, Shaped

from ploff.utils.errors import PloffError

SIZES = (1, 4, 16, 64, 256, 1024, 4096)


def is_traced(*trees: Any) -> bool:
    """Whether a transformation such as `jit` looks at these: they have no values yet."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def as_observations(given: Any, shape: tuple[int, ...], names: Sequence[str] = ()) -> Float[np.ndarray, "B *S"]:
    """Observations as 32-bit floats, one per row; what is no number is refused by its row and column.

    Args:
      given: an array, a list, or whatever NumPy makes one of; of one observation, too.
      shape: of one observation.
      names: what the numbers of an observation are called, if that is known.
    """
    try:
        values = np.asarray(given)
    except ValueError:
        raise PloffError("observations must be rows of one length; these differ") from None
    if isinstance(given, np.ma.MaskedArray):
        values = given
    if values.shape == shape:
        values = values[None]
    _refuse_masked(values, names)
    if values.dtype.kind not in "biuf":
        raise PloffError(_not_a_number(values, names))
    if tuple(values.shape[1:]) != shape or not values.ndim:
        raise PloffError(
            f"this policy takes observations of shape {shape}, got {tuple(values.shape[1:])}; there is one per row"
        )
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values).all():
        first = np.argwhere(~np.isfinite(values))[0]
        raise PloffError(
            f"{_place(first, names)} of the observations is {values[tuple(first)]}; every number must be finite"
        )
    return values


def in_batches(act: Callable[..., Any], *arrays: Shaped[np.ndarray, "B ..."]) -> np.ndarray:
    """The answers to all rows, by a compiled function that sees few numbers of rows.

    Args:
      act: from arrays with one row per state to an array with one row each.
      arrays: observations, and masks over actions where there are some.
    """
    count, parts = len(arrays[0]), []
    for start in range(0, max(count, 1), SIZES[-1]):  # no rows are a batch, too: only the function knows their shape
        rows = min(count - start, SIZES[-1])
        size = next(size for size in SIZES if size >= rows)
        padded = [_padded(array[start : start + rows], size) for array in arrays]
        parts.append(np.asarray(act(*padded))[:rows])  # of NumPy: a slice of JAX's would be compiled, too
    return np.concatenate(parts)


def _padded(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows with ones behind them: as a mask, these make every action legal."""
    padded = np.ones((size, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    return padded


def _refuse_masked(values: np.ndarray, names: Sequence[str]) -> None:
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        first = np.argwhere(np.ma.getmaskarray(values))[0]
        raise PloffError(f"{_place(first, names)} of the observations is masked; every number must be there")


def _not_a_number(values: np.ndarray, names: Sequence[str]) -> str:
    for place in np.ndindex(values.shape):
        if not isinstance(values[place], (int, float, np.floating, np.integer, np.bool_)):
            return f"{_place(place, names)} of the observations is {values[place]!r}; a real number is expected"
    return f"observations are {values.dtype}; real numbers are expected"


def _place(index: Any, names: Sequence[str]) -> str:
    """A place as people say it: row 3, column 0 ('speed')."""
    row, *rest = (int(number) for number in index) if len(index) else (0,)
    if not rest:
        return f"row {row}"
    called = f" ({names[rest[0]]!r})" if len(rest) == 1 and rest[0] < len(names) else ""
    return f"row {row}, column {rest[0] if len(rest) == 1 else tuple(rest)}{called}"
