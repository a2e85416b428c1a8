"""Observations as callers have them, checked, and acted on in batches of few sizes.

A compiled function is compiled anew for every number of rows. Rows are therefore padded up to the next size, so that a
caller whose batches are of all sizes compiles at most as often as there are sizes.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from ploff.utils.errors import PloffError

SIZES = (1, 4, 16, 64, 256, 1024, 4096)


def is_traced(*trees: Any) -> bool:
    """Whether a transformation such as `jit` looks at these: they have no values yet."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def as_observations(given: Any, shape: tuple[int, ...]) -> Float[np.ndarray, "B *S"]:
    """Observations as 32-bit floats, one per row; what is no number is refused by its row and column.

    Args:
      given: an array, a list, or whatever NumPy makes one of.
      shape: of one observation.
    """
    try:
        values = np.asarray(given)
    except ValueError:
        raise PloffError("observations must be rows of one length; these differ") from None
    _refuse_masked(given)
    if values.dtype.kind not in "biuf":
        raise PloffError(_not_a_number(values))
    if tuple(values.shape[1:]) != shape or not values.ndim:
        raise PloffError(
            f"this policy takes observations of shape {shape}, got {tuple(values.shape[1:])}; there is one per row"
        )
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values).all():
        first = np.argwhere(~np.isfinite(values))[0]
        raise PloffError(f"{_place(first)} of the observations is {values[tuple(first)]}; every number must be finite")
    return values


def in_batches(act: Callable[[Any], Any], rows: Float[np.ndarray, "B *S"], width: int) -> np.ndarray:
    """The actions of all rows, by a compiled function that sees few numbers of rows."""
    parts = [np.zeros((0, width), np.float32)]
    for start in range(0, len(rows), SIZES[-1]):
        part = rows[start : start + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(part))
        padded = np.zeros((size, *part.shape[1:]), part.dtype)
        padded[: len(part)] = part
        parts.append(np.asarray(act(padded))[: len(part)])  # of NumPy: a slice of JAX's would be compiled, too
    return np.concatenate(parts)


def _refuse_masked(given: Any) -> None:
    if isinstance(given, np.ma.MaskedArray) and np.ma.getmaskarray(given).any():
        first = np.argwhere(np.ma.getmaskarray(given))[0]
        raise PloffError(f"{_place(first)} of the observations is masked; every number must be there")


def _not_a_number(values: np.ndarray) -> str:
    for place in np.ndindex(values.shape):
        if not isinstance(values[place], (int, float, np.floating, np.integer, np.bool_)):
            return f"{_place(place)} of the observations is {values[place]!r}; a real number is expected"
    return f"observations are {values.dtype}; real numbers are expected"


def _place(index: Any) -> str:
    """A place as people say it: row 3, column 0."""
    row, *rest = (int(number) for number in index) if len(index) else (0,)
    return f"row {row}" + (f", column {rest[0] if len(rest) == 1 else tuple(rest)}" if rest else "")
