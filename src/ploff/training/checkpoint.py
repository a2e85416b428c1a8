"""Checkpoints: a seal, a line of JSON, then a pytree's arrays; whole or absent, and as they were written.

The seal, the file's first line, has the format's version and digests of all that stands behind it: a bit that flipped
on a disk or on its way is found before anything is learned from it or acted by it.
"""

import hashlib
import io
import json
import math
import pathlib
from typing import Any, TypeVar

import equinox as eqx
import numpy as np

from ploff.utils.errors import DamagedFileError, PloffError
from ploff.utils.files import Path, atomic_write, plain_value

Tree = TypeVar("Tree")
FORMAT = "ploff file 1"
ARRAY_START = 512  # bytes before an array, a multiple of what processors like


def save_tree(path: Path, tree: Any, header: dict[str, Any] | None = None) -> None:
    """Writes a pytree's arrays behind one line of JSON, sealed."""
    line = json.dumps(header or {}, default=plain_value).encode() + b"\n"
    arrays = io.BytesIO()
    eqx.tree_serialise_leaves(arrays, tree)
    content = arrays.getbuffer()
    with atomic_write(path) as partial, open(partial, "wb") as file:
        file.writelines((seal(line, content), line, content))


def load_header(path: Path) -> dict[str, Any]:
    """The JSON line of a file that `save_tree` wrote, its seal checked."""
    header, _, _ = _open_sealed(path)
    return header


def load_tree(path: Path, like: Tree) -> Tree:
    """The arrays of a file that `save_tree` wrote, in the structure, shapes and types of `like`."""
    _, digest, start = _open_sealed(path)
    content = pathlib.Path(path).read_bytes()[start:]
    check_content(path, content, digest)
    try:
        return eqx.tree_deserialise_leaves(io.BytesIO(content), like)
    except Exception as error:
        raise PloffError(
            f"{path} does not hold what was expected ({error}); was it made with other settings?"
        ) from error


def save_array(path: Path, values: np.ndarray) -> None:
    """Writes one array, sealed, so that it can be mapped into memory."""
    values = np.ascontiguousarray(values)
    line = json.dumps({"dtype": str(values.dtype), "shape": values.shape}).encode()
    line = line.ljust(ARRAY_START - len(seal(b"", b"")) - 1) + b"\n"
    with atomic_write(path) as partial, open(partial, "wb") as file:
        file.writelines((seal(line, values.data), line, values.data))


def load_array(path: Path) -> np.ndarray:
    """The array of a file that `save_array` wrote, mapped into memory."""
    header, digest, start = _open_sealed(path)
    shape = tuple(header["shape"])
    if pathlib.Path(path).stat().st_size != start + np.dtype(header["dtype"]).itemsize * math.prod(shape):
        raise DamagedFileError(path, "it is cut off")
    values = np.memmap(path, header["dtype"], "r", start, shape)
    check_content(path, values.data, digest)
    return values


def seal(header: bytes, content: Any) -> bytes:
    """The first line of a file: its format, and digests of the header line and of what stands behind it."""
    line = {"format": FORMAT, "header": digest_of(header), "content": digest_of(content)}
    return json.dumps(line).encode() + b"\n"


def open_sealed(path: Path) -> tuple[dict[str, Any], str]:
    """The header of a sealed file, and the digest that its content must have."""
    header, digest, _ = _open_sealed(path)
    return header, digest


def check_content(path: Path, content: Any, digest: str) -> None:
    """Refuses content that has another digest than its seal says."""
    if digest_of(content) != digest:
        raise DamagedFileError(path)


def digest_of(content: Any) -> str:
    """The digest of bytes, or of an array's."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


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


def _open_sealed(path: Path) -> tuple[dict[str, Any], str, int]:
    """The header, the content's digest, and where the content begins."""
    with open(path, "rb") as file:
        first, line = file.readline(), file.readline()
        start = file.tell()
    try:
        sealed = json.loads(first)
        if not isinstance(sealed, dict) or "format" not in sealed:
            raise ValueError
    except ValueError:
        raise PloffError(
            f"{path} is not a file of this version of ploff, or it is damaged; remove it and run the same command again"
        ) from None
    if sealed["format"] != FORMAT:
        raise PloffError(f"{path} is of another version of ploff ({sealed['format']}); make it again")
    if sealed.get("header") != digest_of(line) or not isinstance(sealed.get("content"), str):
        raise DamagedFileError(path)
    return json.loads(line), sealed["content"], start


def _flat(tree: Any, path: str = "") -> dict[str, Any]:
    """Nested settings by their paths, with lists as tuples, as JSON gives them back."""
    if not isinstance(tree, dict):
        return {path: tuple(tree) if isinstance(tree, list) else tree}
    return {
        name: value
        for key, inner in tree.items()
        for name, value in _flat(inner, f"{path}.{key}" if path else key).items()
    }
