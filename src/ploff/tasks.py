"""D4RL's tasks: one table of families, horizons and reference scores; and normalized scores.

    score = 100 (R − low) / (high − low)

The references are D4RL's: the returns of a random policy and of an expert. `register_reference` adds others.
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from ploff.utils.errors import PloffError, UnknownNameError

Family = Literal["locomotion", "hand", "other"]
References = tuple[float, float]  # the returns that score 0 and 100


class Task(NamedTuple):
    """What is known of one of D4RL's environments."""

    family: Family
    horizon: int  # steps after which an episode is cut
    references: References


TASKS = {
    "halfcheetah": Task("locomotion", 1000, (-280.178953, 12135.0)),
    "hopper": Task("locomotion", 1000, (-20.272305, 3234.3)),
    "walker2d": Task("locomotion", 1000, (1.629008, 4592.3)),
    "pen": Task("hand", 100, (96.262799, 3076.8331)),
    "hammer": Task("hand", 200, (-274.856578, 12794.134)),
    "door": Task("hand", 200, (-56.512833, 2880.5693)),
    "relocate": Task("hand", 200, (-6.425911, 4233.877)),
}
_registered: dict[str, References] = {}


def tasks_of(family: Family) -> tuple[str, ...]:
    """The names of a family's tasks."""
    return tuple(name for name, task in TASKS.items() if task.family == family)


def reference_scores(environment: str) -> References:
    """The returns that score 0 and 100 in an environment."""
    if environment in _registered:
        return _registered[environment]
    if environment not in TASKS:
        remedy = "(`register_reference` adds references for an environment of your own)"
        raise UnknownNameError("reference scores", environment, {*TASKS, *_registered}, remedy)
    return TASKS[environment].references


def has_reference(environment: str | None) -> bool:
    """Whether `reference_scores` knows the environment."""
    return environment in TASKS or environment in _registered


def register_reference(environment: str, low: float, high: float) -> None:
    """Sets the returns that score 0 and 100 in an environment, from now on, in this process."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise PloffError(f"references for {environment!r} must be finite and low < high, got {low} and {high}")
    _registered[environment] = (float(low), float(high))


def normalized_score(returns: Any, references: References) -> Any:
    """100 (R − low)/(high − low), element by element."""
    low, high = references
    return 100.0 * (np.asarray(returns, np.float64) - low) / (high - low)
