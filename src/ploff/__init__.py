"""PLOff: offline reinforcement learning with pseudometric learning."""

from ploff.errors import DataError, MissingExtraError, PloffError, UnknownNameError
from ploff.transitions import ActionSpace, Origin, Transitions

__all__ = [
    "ActionSpace",
    "DataError",
    "MissingExtraError",
    "Origin",
    "PloffError",
    "Transitions",
    "UnknownNameError",
]
