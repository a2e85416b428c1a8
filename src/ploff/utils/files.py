"""Files that are whole or absent: nothing here leaves a half-written file behind, whatever kills the process.

A file is written beside its place under another name, flushed to the disk, and renamed over it in one step.
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import filelock
import jax
import numpy as np

from ploff.utils import interrupts
from ploff.utils.errors import DamagedFileError, PloffError

Path = str | os.PathLike[str]
DIGEST, RECORD = "digest", "ploff record 1"


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[pathlib.Path]:
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
def locked(path: pathlib.Path, *, when_taken: Callable[[], None]) -> Iterator[None]:
    """Holds a lock that ends with the process, whatever ends it.

    Args:
      path: the lock's file.
      when_taken: called where another process holds the lock; it may raise, or return to wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        when_taken()
        _wait_for(lock)
    try:
        yield
    finally:
        lock.release()


def _wait_for(lock: filelock.BaseFileLock) -> None:
    while not lock.is_locked:
        interrupts.check()
        with contextlib.suppress(filelock.Timeout):
            lock.acquire(timeout=0.5)


def write_text(path: Path, text: str) -> None:
    """Writes text as UTF-8, whole or not at all."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Writes JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=2, default=plain_value) + "\n")


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON object with its format's version and a digest of its content, whole or not at all."""
    plain = json.loads(json.dumps({"format": RECORD, **content}, default=plain_value))
    write_json(path, {**plain, DIGEST: digest(plain, 16)})


def read_record(path: Path) -> dict[str, Any]:
    """Reads what `write_record` wrote, and nothing else."""
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        return check_record(content)
    except ValueError:
        raise DamagedFileError(path) from None


def check_record(content: Any) -> dict[str, Any]:
    """A JSON object without its digest, which must be that of the rest; a ValueError otherwise."""
    found = content.pop(DIGEST, None) if isinstance(content, dict) else None
    if found != digest(content, 16):
        raise ValueError("it is not what was written")
    return content


def read_json(path: Path) -> Any:
    """Reads JSON, or says which file is broken."""
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise PloffError(
            f"{path} is not valid JSON (line {error.lineno}): {error.msg}; delete it to start anew"
        ) from None
    except UnicodeDecodeError:
        raise PloffError(f"{path} is not valid JSON: it is not UTF-8; delete it to start anew") from None


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows under the union of their columns, whole or not at all."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by its header; none if there is no file."""
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def digest(content: Any, size: int = 8) -> str:
    """A short digest of JSON content: equal content, equal digest."""
    text = json.dumps(content, sort_keys=True, default=plain_value)
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


def fingerprint(tree: Any) -> str:
    """A short digest of every array in a pytree, with types and shapes: equal content, equal fingerprint."""
    found = hashlib.blake2b(digest_size=12)
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(array.data)
    return found.hexdigest()


def plain_value(value: Any) -> Any:
    """NumPy and JAX values, and paths, as JSON's own."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return np.asarray(value).tolist()
    if isinstance(value, pathlib.Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
