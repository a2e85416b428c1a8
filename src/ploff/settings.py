"""How settings are checked: a complaint names the field, the rule and the value that broke it."""

import numbers
import typing
from collections.abc import Callable
from typing import Any, Literal

from ploff.errors import PloffError


def positive(config: Any, *names: str) -> None:
    """Refuses settings that are not above 0."""
    _refuse(config, names, lambda value: value > 0, "must be positive")


def not_negative(config: Any, *names: str) -> None:
    """Refuses settings below 0."""
    _refuse(config, names, lambda value: value >= 0, "must not be negative")


def counts(config: Any, *names: str) -> None:
    """Refuses settings that are not whole numbers from 1 on."""
    _refuse(
        config,
        names,
        lambda value: isinstance(value, numbers.Integral) and int(value) >= 1,
        "must be a whole number, at least 1",
    )


def widths(config: Any, *names: str) -> None:
    """Refuses hidden layers without units, and networks without hidden layers."""
    _refuse(config, names, lambda value: bool(value) and min(value) >= 1, "needs widths of at least 1")


def within(config: Any, interval: str, *names: str) -> None:
    """Refuses settings outside an interval that is written as on paper: "[0, 1)" holds 0, and 1 not."""
    low, high = (float(end) for end in interval[1:-1].split(","))

    def holds(value: float) -> bool:
        above = value >= low if interval[0] == "[" else value > low
        return above and (value <= high if interval[-1] == "]" else value < high)

    _refuse(config, names, holds, f"must lie in {interval}")


def choices(config: Any) -> None:
    """Refuses a value that its field, a `Literal`, does not know."""
    for name, hint in typing.get_type_hints(type(config)).items():
        if typing.get_origin(hint) is Literal:
            known = typing.get_args(hint)
            _refuse(
                config, (name,), lambda value, known=known: value in known, f"is one of {', '.join(known)}"
            )


def _refuse(config: Any, names: tuple[str, ...], holds: Callable[[Any], bool], rule: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not holds(value):
            raise PloffError(f"{name} {rule}, got {value!r}")
