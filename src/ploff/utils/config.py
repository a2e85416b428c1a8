"""Configurations: frozen dataclasses that are checked where they are made, and read from text, TOML or JSON.

A complaint names the field, the rule and the value that broke it.
"""

import dataclasses
import functools
import importlib.resources
import numbers
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import cattrs

from ploff.utils.errors import PloffError, UnknownNameError

Config = TypeVar("Config")

# Checks, for `__post_init__`.


def check_positive(config: Any, *names: str) -> None:
    """Refuses settings that are not above 0."""
    _refuse(config, names, lambda value: value > 0, "must be positive")


def check_not_negative(config: Any, *names: str) -> None:
    """Refuses settings below 0."""
    _refuse(config, names, lambda value: value >= 0, "must not be negative")


def check_counts(config: Any, *names: str) -> None:
    """Refuses settings that are not whole numbers from 1 on."""
    _refuse(
        config,
        names,
        lambda value: isinstance(value, numbers.Integral) and int(value) >= 1,
        "must be a whole number, at least 1",
    )


def check_sizes(config: Any, *names: str) -> None:
    """Refuses hidden layers without units, and networks without hidden layers."""
    _refuse(config, names, lambda value: bool(value) and min(value) >= 1, "needs sizes of at least 1")


def check_within(config: Any, interval: str, *names: str) -> None:
    """Refuses settings outside an interval that is written as on paper: "[0, 1)" holds 0, and 1 not."""
    low, high = (float(end) for end in interval[1:-1].split(","))

    def holds(value: float) -> bool:
        above = value >= low if interval[0] == "[" else value > low
        return above and (value <= high if interval[-1] == "]" else value < high)

    _refuse(config, names, holds, f"must lie in {interval}")


def check_choices(config: Any) -> None:
    """Refuses a value that its field, a `Literal`, does not know."""
    for name, hint in typing.get_type_hints(type(config)).items():
        if get_origin(hint) is Literal:
            known = get_args(hint)
            _refuse(config, (name,), lambda value, known=known: value in known, f"is one of {', '.join(known)}")


def _refuse(config: Any, names: Iterable[str], holds: Callable[[Any], bool], rule: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not holds(value):
            raise PloffError(f"{name} {rule}, got {value!r}")


# Reading.


def structure(kind: type[Config], content: Mapping[str, Any], what: str) -> Config:
    """Makes a configuration from a mapping of text, TOML or JSON values.

    Args:
      kind: the dataclass.
      content: its fields; those that are missing keep their defaults.
      what: how a complaint calls a field, as in "setting of bc".

    Raises:
      PloffError: a field that is unknown (the nearest one is named), or a value of the wrong type.
    """
    return kind(**structure_fields(kind, content, what))


def structure_fields(kind: Any, content: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Reads values as the types of their fields say, without making the configuration."""
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    read = {}
    for name, value in content.items():
        if name not in known:
            raise unknown_setting(what, name, known)
        try:
            read[name] = _converter.structure(value, hints[name])
        except cattrs.errors.StructureHandlerNotFoundError:
            read[name] = value
        except PloffError as error:
            raise PloffError(f"{what} {name} {error}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise PloffError(f"{what} {name} cannot be {value!r}: {error}") from None
    return read


@functools.cache
def renamed_settings() -> dict[str, list[str]]:
    """Names that settings had before, and what they are called now."""
    return tomllib.loads((importlib.resources.files("ploff.utils") / "renamed_settings.toml").read_text())


def unknown_setting(what: str, name: str, known: Iterable[str]) -> PloffError:
    """The error for a name that is not known: its new name if it was renamed, else the nearest ones."""
    known = set(known)
    now = [new for new in renamed_settings().get(name, ()) if new in known]
    if now:
        return PloffError(f"{what} {name!r} is called {now[0]!r} now")
    return UnknownNameError(what, name, known)


def to_plain(config: Any) -> dict[str, Any]:
    """A configuration as JSON and TOML have it: tuples are lists."""
    return _converter.unstructure(config)


def read_assignments(texts: Iterable[str]) -> dict[str, str]:
    """{name: value} of texts NAME=VALUE."""
    read = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise PloffError(f"a setting is given as NAME=VALUE, got {text!r}")
        read[name] = value
    return read


def _whole(value: Any, _: Any) -> int:
    if isinstance(value, str):
        try:
            return int(value.replace("_", ""))
        except ValueError:
            raise PloffError(f"is a whole number, got {value!r}") from None
    return value  # the configuration's own checks judge it


def _number(value: Any, _: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        raise PloffError(f"is a number, got {value!r}") from None


def _flag(value: Any, _: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise PloffError(f"is true or false, got {value!r}")
    return value


def _choice(value: Any, hint: Any) -> Any:
    if value not in get_args(hint):
        raise PloffError(f"is one of {', '.join(map(str, get_args(hint)))}, got {value!r}")
    return value


def _sequence(value: Any, hint: Any) -> tuple[Any, ...]:
    parts = [part for part in value.split(",") if part] if isinstance(value, str) else value
    kinds = get_args(hint)
    kinds = kinds[:1] * len(parts) if kinds[-1] is Ellipsis else kinds
    return tuple(_converter.structure(part, kind) for part, kind in zip(parts, kinds, strict=True))


def _optional(value: Any, hint: Any) -> Any:
    (kind,) = (kind for kind in get_args(hint) if kind is not type(None))
    if value is None or (kind is not str and isinstance(value, str) and value.lower() == "none"):
        return None
    return _converter.structure(value, kind)


def _is_optional(hint: Any) -> bool:
    kinds = get_args(hint)
    return len(kinds) == 2 and type(None) in kinds and get_origin(hint) is not tuple


def _dataclass(value: Any, hint: Any) -> Any:
    return value if isinstance(value, hint) else structure(hint, value, "field")


_converter = cattrs.Converter(detailed_validation=False)
_converter.register_structure_hook_func(dataclasses.is_dataclass, _dataclass)
_converter.register_structure_hook_func(lambda hint: get_origin(hint) is tuple, _sequence)
_converter.register_structure_hook_func(lambda hint: get_origin(hint) is Literal, _choice)
_converter.register_structure_hook_func(_is_optional, _optional)
_converter.register_structure_hook(int, _whole)
_converter.register_structure_hook(float, _number)
_converter.register_structure_hook(bool, _flag)
_converter.register_unstructure_hook_func(
    lambda kind: get_origin(kind) is tuple or kind is tuple,
    lambda values: [_converter.unstructure(value) for value in values],
)
