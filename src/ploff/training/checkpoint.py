"""Checkpoints: a line of JSON, then a pytree's arrays; whole or absent."""

import json
import pathlib
from typing import Any, BinaryIO, TypeVar

import equinox as eqx

from ploff.utils.errors import PloffError
from ploff.utils.files import Path, atomic_write, plain_value

Tree = TypeVar("Tree")


def save_tree(path: Path, tree: Any, header: dict[str, Any] | None = None) -> None:
    """Writes a pytree's arrays behind one line of JSON."""
    with atomic_write(path) as partial, open(partial, "wb") as file:
        file.write(json.dumps(header or {}, default=plain_value).encode() + b"\n")
        eqx.tree_serialise_leaves(file, tree)


def load_header(path: Path) -> dict[str, Any]:
    """The JSON line of a file that `save_tree` wrote."""
    with open(path, "rb") as file:
        return _read_header(path, file)


def load_tree(path: Path, like: Tree) -> Tree:
    """The arrays of a file that `save_tree` wrote, in the structure, shapes and types of `like`."""
    with open(path, "rb") as file:
        _read_header(path, file)
        try:
            return eqx.tree_deserialise_leaves(file, like)
        except Exception as error:
            raise PloffError(
                f"{path} does not hold what was expected ({error}); was it made with other settings?"
            ) from error


def refuse_difference(place: pathlib.Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raises an error that names the first setting of what is in `place` that is not as it is wanted."""
    old, new = _flat(found), _flat(wanted)
    for path in {**new, **old}:
        was, now, name = old.get(path), new.get(path), path.rpartition(".")[2]
        if was == now:
            continue
        if name == "dataset":
            raise PloffError(f"{place} was trained on another dataset; choose another --out, or delete it")
        raise PloffError(f"{place} was trained with {name}={was}, not {now}; choose another --out, or delete it")


def _read_header(path: Path, file: BinaryIO) -> dict[str, Any]:
    try:
        return json.loads(file.readline())
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise PloffError(f"{path} is not a file that ploff wrote, or it is damaged; delete it to start anew") from None


def _flat(tree: Any, path: str = "") -> dict[str, Any]:
    """Nested settings by their paths, with lists as tuples, as JSON gives them back."""
    if not isinstance(tree, dict):
        return {path: tuple(tree) if isinstance(tree, list) else tree}
    return {
        name: value
        for key, inner in tree.items()
        for name, value in _flat(inner, f"{path}.{key}" if path else key).items()
    }
