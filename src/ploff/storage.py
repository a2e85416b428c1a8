"""Files that are whole or absent: nothing here leaves a half-written file behind, whatever kills the process.

A file is written beside its place under another name, flushed to the disk, and renamed over it in one step.
"""

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

import equinox as eqx
import jax
import numpy as np

from ploff.errors import PloffError

Tree = TypeVar("Tree")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a path to write to; moves it over `path` if the block ends well, removes it otherwise."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays: writers such as np.savez and pyarrow look at it.
    partial = path.with_name(f".{path.stem}.partial-{os.getpid()}{path.suffix}")
    try:
        yield partial
        with open(partial, "r+b") as written:
            os.fsync(written.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync_folder(folder: pathlib.Path) -> None:
    """Makes a rename survive a power cut; not every system can open a folder, and there the rename alone must do."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def exclusive(path: pathlib.Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds a lock that ends with the process, whatever ends it.

    Args:
      path: the lock's file.
      waiting: called where another process holds it; it may raise, or return to wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not on this system: two processes in one folder are then the user's to avoid
        yield
        return
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Writes JSON, whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=2, default=_plain) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads JSON, or says which file is broken."""
    try:
        return json.loads(pathlib.Path(path).read_text())
    except json.JSONDecodeError as error:
        raise PloffError(
            f"{path} is not valid JSON (line {error.lineno}): {error.msg}; delete it to start anew"
        ) from None


def save_tree(path: str | os.PathLike[str], tree: Any, header: dict[str, Any] | None = None) -> None:
    """Writes a pytree's arrays behind one line of JSON."""
    with replacing(path) as partial, open(partial, "wb") as file:
        file.write(json.dumps(header or {}, default=_plain).encode() + b"\n")
        eqx.tree_serialise_leaves(file, tree)


def load_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON line of a file that `save_tree` wrote."""
    with open(path, "rb") as file:
        return _read_header(path, file)


def load_tree(path: str | os.PathLike[str], like: Tree) -> Tree:
    """The arrays of a file that `save_tree` wrote, in the structure, shapes and types of `like`."""
    with open(path, "rb") as file:
        _read_header(path, file)
        try:
            return eqx.tree_deserialise_leaves(file, like)
        except Exception as error:
            raise PloffError(
                f"{path} does not hold what was expected ({error}); was it made with other settings?"
            ) from error


def _read_header(path: str | os.PathLike[str], file: BinaryIO) -> dict[str, Any]:
    try:
        return json.loads(file.readline())
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise PloffError(
            f"{path} is not a file that ploff wrote, or it is damaged; delete it to start anew"
        ) from None


def fingerprint(tree: Any) -> str:
    """A short digest of every array in a pytree, with types and shapes: equal content, equal fingerprint."""
    digest = hashlib.blake2b(digest_size=12)
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def as_settings(fields: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON gives them back, with the tuples that it makes lists of."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _plain(value: Any) -> Any:
    """NumPy and JAX values as JSON's own."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return np.asarray(value).tolist()
    if isinstance(value, pathlib.Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
