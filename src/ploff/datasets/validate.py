"""What is wrong with logged data, found before anything learns from it.

A fault is a DataError, one line that names the file, the place and the remedy. What is only odd is a
PloffWarning.
"""

import contextlib
import difflib
import json
import pathlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ploff.actions import ActionSpace
from ploff.transitions import UNKNOWN, Origin, Transitions
from ploff.utils.errors import DataError, PloffError, PloffWarning
from ploff.utils.memory import free_memory, in_bytes

BOUND_SLACK = 1e-6  # of an action's range: what rounding may add
LARGEST = 1e18  # of a number: its square, and sums of squares, must be numbers of 32 bits
BLURRED = 1e-5  # of the largest number: less than a hundred steps of 32 bits
MANY = 10  # episodes: fewer may be of the same length by chance
NARROW = 1e-2  # of an action's range
BLOCK_ROWS = 65_536  # looked at together: small enough to stay in the processor's cache


@runtime_checkable
class Shaped(Protocol):
    """An array, or something on a disk that will be one."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102


def warn(message: str) -> None:
    """Says that something is odd, and goes on."""
    warnings.warn(message, PloffWarning, stacklevel=3)


def check_file(path: pathlib.Path) -> None:
    """A readable file, neither missing, a folder nor empty."""
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
        listing = f"; it holds {', '.join(inside[:5])}" if inside else ""
        raise DataError(f"{path} is a folder where a file is expected{listing}")
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6)
        hint = f"did you mean {str(path.parent / near[0])!r}?" if near else "check the path"
        raise DataError(f"no file {str(path)!r}; {hint}")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty (0 bytes); was its download cut short?")


@contextlib.contextmanager
def reading(source: str, *parts: str) -> Iterator[None]:
    """Turns whatever goes wrong between a file's bytes and transitions into a fault of the file, in one line.

    Args:
      source: how messages call what is read.
      parts: files of which it consists; a message that names one of these needs no other name.
    """
    try:
        yield
    except PloffError as error:
        text = " ".join(str(error).split())
        named = any(name in text for name in (source, *parts))
        if text == str(error) and named:
            raise
        raise DataError(text if named else f"{source}: {text}") from error
    except (Warning, FileNotFoundError, PermissionError, ModuleNotFoundError):
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{source} is not text in UTF-8 ({error.reason} at byte {error.start}); save it so") from error
    except MemoryError as error:
        raise DataError(f"{source} does not fit into memory; {in_bytes(free_memory())} are free") from error
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise DataError(f"{source} cannot be read ({what}); is it whole? download or copy it again") from error


def refuse_larger(source: str, size: int) -> None:
    """Refuses what would take more memory than is free, by what it declares, before it is read."""
    free = free_memory()
    if size > free:
        raise DataError(f"{source} declares {in_bytes(size)}, more than the {in_bytes(free)} of memory that are free")


def check_kinds(source: str, arrays: Mapping[str, Any]) -> None:
    """Numbers and flags, neither complex ones nor text, dates or records."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            kind = {"c": "complex numbers", "M": "dates", "m": "durations"}.get(array.dtype.kind, "no numbers")
            raise DataError(f"{source}: {name} holds {kind} ({array.dtype}); real numbers are expected")


def check_origin(source: str, origin: Origin) -> None:
    """What a file says of its environment can be used: options are keywords, and reference returns differ."""
    try:
        options = json.loads(origin.options)
    except (ValueError, TypeError):
        options = None
    if not isinstance(options, dict):
        raise DataError(f"{source}: its environment's options are {origin.options!r}; an object in JSON is expected")
    scores = origin.reference_scores
    if scores is not None and not (np.isfinite(scores).all() and scores[0] < scores[1]):
        raise DataError(
            f"{source}: reference returns {scores} score nothing; the first must be finite and below the second"
        )
    for name, kind, _ in origin.written_as:
        if np.dtype(kind).kind not in "biuf":
            raise DataError(f"{source}: {name} cannot have been written as {kind}")


def check_space(source: str, space: ActionSpace | None) -> None:
    """Bounds that a file declares are numbers, the lower ones below the higher."""
    if space is None:
        return
    if space.kind == "box" and space.n != 0:
        raise DataError(f"{source}: its actions lie in a box and are {space.n!r} choices; it is one or the other")
    if not np.all(np.asarray(space.low) <= np.asarray(space.high)):
        raise DataError(
            f"{source}: its actions' bounds are {space.low} and {space.high}; lower before higher is expected"
        )


def check_columns(source: str, present: Iterable[str], used: Iterable[str]) -> None:
    """Every column that is used is there once, whether its name is in capitals or not."""
    spelled: dict[str, list[str]] = {}
    for name in present:
        spelled.setdefault(name.lower(), []).append(name)
    for name in used:
        if len(same := spelled.get(name.lower(), [])) > 1:
            raise DataError(f"{source} has the columns {' and '.join(map(repr, same))}; leave one, or rename the other")


def check_numbering(source: str, names: Iterable[str]) -> None:
    """Columns that are numbered, as action_0, action_1, …, have no gap, and none twice."""
    found = [(name, re.fullmatch(r"(.*_)(\d+)", name)) for name in names]
    if not all(match for _, match in found):
        return
    numbers = [int(match[2]) for _, match in found if match]
    for expected, (number, (name, match)) in enumerate(
        zip(numbers, found, strict=True), start=numbers[0] if numbers else 0
    ):
        if number != expected and match:
            raise DataError(
                f"{source}: {match[1]}{expected} is missing before {name}; name the columns one by one, or add it"
            )


def check_present(
    source: str, wanted: Iterable[str], present: Iterable[str], held: Iterable[str] | None = None
) -> None:
    """Every array that a dataset cannot do without; `held` is what the source itself calls its own, if other."""
    there = set(present)
    missing = [name for name in wanted if name not in there]
    if missing:
        inside = sorted(there if held is None else held)
        shown = ", ".join(inside[:12]) + (", …" if len(inside) > 12 else "")
        raise DataError(f"{source} lacks {', '.join(missing)}; it holds {shown or 'nothing'}")


def check_shapes(source: str, arrays: Mapping[str, Shaped]) -> None:
    """One row per transition in every array, at least one row, and successors as wide as states."""
    count = arrays["rewards"].shape[0] if arrays["rewards"].shape else 0
    for name, array in arrays.items():
        if not array.shape or array.shape[0] != count:
            rows = array.shape[0] if array.shape else "no"
            raise DataError(f"{source}: {name} has {rows} rows but rewards has {count}; one row per transition")
    if count == 0:
        raise DataError(f"{source} holds no transitions")
    following = arrays.get("next_observations")
    if following is not None and following.shape != arrays["observations"].shape:
        raise DataError(
            f"{source}: next_observations has shape {following.shape}, "
            f"observations {arrays['observations'].shape}; they must agree"
        )


def as_flags(source: str, name: str, values: np.ndarray) -> np.ndarray:
    """Flags as booleans, whatever type they were written in; anything but 0 and 1 is refused."""
    check_kinds(source, {name: values})
    values = values.reshape(len(values))
    if values.dtype == bool:
        return values
    odd = np.flatnonzero((values != 0) & (values != 1))
    if len(odd):
        raise DataError(f"{source}: {name}[{odd[0]}] is {values[odd[0]]}; a flag is 0 or 1")
    return values.astype(bool)


def check(transitions: Transitions, source: str) -> None:
    """What can be said of whole transitions: finite, inside the bounds, with ends, rewards that differ."""
    count, rewards = len(transitions), np.asarray(transitions.rewards)
    _check_finite(source, "observations", np.asarray(transitions.observations)[:count])
    _check_finite(source, "actions", np.asarray(transitions.actions))
    _check_finite(source, "rewards", rewards)
    _check_finite_successors(source, transitions)
    _check_actions(source, np.asarray(transitions.actions), transitions.action_space)
    if not np.any(transitions.terminals) and not np.any(transitions.timeouts):
        raise DataError(
            f"{source}: no row is marked terminal or timeout, so its episodes cannot be told apart; "
            f"give --horizon N, the length of an episode ({count} if it is one recording)"
        )
    if count > 1 and rewards.min() == rewards.max() and not (rewards[0] and np.any(transitions.terminals)):
        warn(f"{source}: every reward is {rewards[0]:g}; they say nothing about good and bad")
    _check_precision(source, "observations", np.asarray(transitions.observations))
    _check_precision(source, "rewards", rewards)
    _check_ends(source, transitions)


def _check_finite(source: str, name: str, values: np.ndarray, rows: np.ndarray | None = None) -> None:
    """`rows` are the numbers by which the file knows the rows, if not their own."""
    blocks = (values[start : start + BLOCK_ROWS] for start in range(0, len(values), BLOCK_ROWS))
    wide = values.dtype.kind == "f" or (values.dtype.kind in "iu" and values.dtype.itemsize == 8)
    if not wide or all((np.abs(block, dtype=np.result_type(block, np.float32)) <= LARGEST).all() for block in blocks):
        return
    bad = ~np.isfinite(values)
    if not bad.any():
        sizes = np.abs(values, dtype=np.float64).reshape(len(values), -1)
        first = int(np.flatnonzero((sizes > LARGEST).any(axis=1))[0])
        raise DataError(
            f"{source}: {name} reach {sizes.max():g}, first in row {first if rows is None else rows[first]}; "
            f"more than {LARGEST:g} cannot be learned from in 32 bits; is it a filling?"
        )
    row, number = int(np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))[0]), int(bad.sum())
    first = values[row].reshape(-1)[bad[row].reshape(-1)][0]
    raise DataError(
        f"{source}: {name} holds {number} NaN or infinite value{'s'[: number > 1]}, "
        f"first {first} in row {row if rows is None else rows[row]}; repair or drop that episode"
    )


def _check_precision(source: str, name: str, values: np.ndarray) -> None:
    """Learners see 32 bits: numbers of 64 should still differ."""
    if values.dtype.itemsize < 8:
        return
    low, high = values.min(axis=0).astype(np.float64), values.max(axis=0).astype(np.float64)
    largest = np.maximum(np.abs(low), np.abs(high))
    range_, largest = np.ravel(high - low), np.ravel(largest)
    blurred = np.flatnonzero((range_ > 0) & (range_ < BLURRED * largest))
    if len(blurred):
        first = blurred[0]
        place = f" (component {first})" if values.ndim > 1 else ""
        warn(
            f"{source}: {name}{place} vary by {range_[first]:g} around {largest[first]:g}, "
            "which 32 bits hardly tell apart; subtract a constant"
        )


def _check_ends(source: str, transitions: Transitions) -> None:
    """Terminals that all come after the same number of steps are likely a time limit."""
    lengths, ends = transitions.episode_lengths(), transitions.episode_ends()
    lengths = lengths[np.asarray(transitions.terminals)[ends]]
    if len(lengths) >= MANY and lengths[0] > 1 and (lengths == lengths[0]).all():
        warn(
            f"{source}: all {len(lengths)} terminals come after {lengths[0]} steps; where that is a time limit, "
            "mark them as timeouts: nothing is bootstrapped behind a terminal"
        )


def _check_finite_successors(source: str, transitions: Transitions) -> None:
    """States that are only somebody's successor stand behind the others; report them by that somebody."""
    count, successors = len(transitions), np.asarray(transitions.successors)
    behind = np.flatnonzero(successors >= count)
    rows = np.zeros(transitions.num_states - count, int)
    rows[successors[behind] - count] = behind
    _check_finite(source, "next_observations", np.asarray(transitions.observations)[count:], rows)


def _check_actions(source: str, actions: np.ndarray, space: ActionSpace) -> None:
    if space.kind == "discrete":
        low, high = np.asarray(0), np.asarray(space.n - 1)
        bounds, remedy = f"0 … {space.n - 1}", "--choices"
    else:
        if actions.shape[1:] != (space.width,):
            raise DataError(
                f"{source}: actions have shape {actions.shape[1:]}, but {space.width} dimensions have bounds"
            )
        slack = BOUND_SLACK * (np.asarray(space.high) - np.asarray(space.low))
        low, high = np.asarray(space.low) - slack, np.asarray(space.high) + slack
        bounds, remedy = _range(space), "--action-low and --action-high"
    least, most = actions.min(axis=0), actions.max(axis=0)
    if (least >= low).all() and (most <= high).all():
        if space.kind == "box" and (most - least < NARROW * 2 * space.half_range).all():
            warn(
                f"{source}: the actions fill less than {NARROW:.0%} of {bounds}; if these are no true bounds, "
                "give --action-low and --action-high"
            )
        return
    outside = (actions < low) | (actions > high)
    where = tuple(int(i) for i in np.argwhere(outside)[0])
    raise DataError(
        f"{source}: actions{list(where)} is {actions[where]:g}, outside {bounds}; "
        f"{outside.sum()} values are; clip them, or give {remedy}"
    )


def _range(space: ActionSpace) -> str:
    if len(set(space.low)) == len(set(space.high)) == 1:
        return f"[{space.low[0]:g}, {space.high[0]:g}]"
    return "the bounds of their dimension"


def check_successors(source: str, successors: np.ndarray, states: int) -> None:
    """Rows of states that exist, for files that store the container itself."""
    bad = np.flatnonzero((successors < UNKNOWN) | (successors >= states))
    if len(bad):
        raise DataError(f"{source}: successors[{bad[0]}] is {successors[bad[0]]}, but there are {states} states")
