"""Keywords of `ploff.load`, written as a command has them and as a file does."""

import json
from collections.abc import Mapping
from typing import Any


def command_options(reading: Mapping[str, Any]) -> list[str]:
    """Keywords of `ploff.load` as options of the command."""
    words: list[str] = []
    for name, value in reading.items():
        if name == "more" or value in (None, (), {}, []):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if name == "columns":
            words += [f"{field}={','.join(columns)}" for field, columns in value.items()]
        elif name == "reward":
            words += [f"{column}={weight:g}" for column, weight in value.items()]
        elif isinstance(value, list | tuple):
            words += [str(one) for one in value]
        else:
            words.append("tab" if value == "\t" else str(value))
    return words


def to_toml(reading: Mapping[str, Any]) -> str:
    """Keywords of `ploff.load` as TOML, tables last."""
    plain = {name: value for name, value in reading.items() if value not in (None, (), {}, []) and name != "more"}
    lines = [f"{name} = {_literal(value)}" for name, value in plain.items() if not isinstance(value, Mapping)]
    for name, value in plain.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{name}]", *(f"{_literal(key)} = {_literal(one)}" for key, one in value.items())]
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    """A text, a number or a list of these, as TOML and JSON both write it."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
