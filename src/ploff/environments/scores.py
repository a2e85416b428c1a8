"""Normalised scores: 0 for a random policy's return, 100 for an expert's.

    score = 100 (R − low) / (high − low)

The references are D4RL's. `register_reference` adds others.
"""

import math
from typing import Any

import numpy as np

from ploff.errors import PloffError, UnknownNameError

References = tuple[float, float]  # the returns that score 0 and 100

_REFERENCES: dict[str, References] = {
    "halfcheetah": (-280.178953, 12135.0),
    "hopper": (-20.272305, 3234.3),
    "walker2d": (1.629008, 4592.3),
    "pen": (96.262799, 3076.8331),
    "hammer": (-274.856578, 12794.134),
    "door": (-56.512833, 2880.5693),
    "relocate": (-6.425911, 4233.877),
}


def reference_scores(name: str) -> References:
    """The returns that score 0 and 100 on an environment."""
    if name not in _REFERENCES:
        remedy = "(`register_reference` adds references for an environment of your own)"
        raise UnknownNameError("reference scores", name, _REFERENCES, remedy)
    return _REFERENCES[name]


def has_reference(name: str) -> bool:
    """Whether `reference_scores` knows the environment."""
    return name in _REFERENCES


def register_reference(name: str, low: float, high: float) -> None:
    """Sets the returns that score 0 and 100 on an environment, from now on, in this process."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise PloffError(f"references for {name!r} must be finite and low < high, got {low} and {high}")
    _REFERENCES[name] = (float(low), float(high))


def normalised_score(returns: Any, references: References) -> Any:
    """100 (R − low)/(high − low), element by element."""
    low, high = references
    return 100.0 * (np.asarray(returns, np.float64) - low) / (high - low)
