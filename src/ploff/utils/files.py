"""Files that are whole or absent: nothing here leaves a half-written file behind, whatever kills the process.

A file is written beside its place under another name, flushed to the disk, and renamed over it in one step.
"""

import contextlib
import csv
import ctypes
import errno
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import filelock
import jax
import numpy as np

from ploff.utils import interrupts
from ploff.utils.errors import DamagedFileError, PloffError
from ploff.utils.memory import in_bytes

Path = str | os.PathLike[str]
LEFTOVER = re.compile(r"\..*\.partial-(?P<machine>[0-9a-f]{6})-(?P<process>\d+)(\.\w+)?")
CLOSED_FOLDERS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG}
DISK_ERRORS = CLOSED_FOLDERS | {errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC)}
DIGEST, RECORD = "digest", "ploff record 1"


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[pathlib.Path]:
    """Yields a path to write to; moves it over `path` if the block ends well, removes it otherwise.

    Raises:
      PloffError: the disk is full, the folder cannot be written to, and the like.
    """
    path = pathlib.Path(path)
    partial = unfinished(path)
    with disk_errors_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        try:
            yield partial
            with open(partial, "r+b") as written:
                os.fsync(written.fileno())
            os.replace(partial, path)
            _sync_folder(path.parent)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


@contextlib.contextmanager
def disk_errors_named(path: Path) -> Iterator[None]:
    """Says which file cannot be written, why, and what to do, where a disk refuses."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRORS and not (
            "requested and" in str(error) and "written" in str(error)
        ):  # NumPy's
            raise
        place = next(folder for folder in pathlib.Path(path).absolute().parents if folder.exists())
        remedy = f"{in_bytes(shutil.disk_usage(place).free)} are free there: make room"
        if error.errno in CLOSED_FOLDERS:
            remedy = "choose a folder that you may write to"
        if error.errno == errno.EFBIG:
            remedy = "raise the limit on a file's size (`ulimit -f`)"
        why = error.strerror or "the disk took only a part of it"
        raise PloffError(f"{path} cannot be written: {why}; {remedy}, and run the same command again") from error


def reserve(path: pathlib.Path, size: int) -> None:
    """Makes sure that a disk would take so many bytes at that place, for libraries that do not survive a full one."""
    with open(path, "wb") as file:
        try:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
        finally:
            path.unlink(missing_ok=True)


def unfinished(path: pathlib.Path, kind: str = "partial") -> pathlib.Path:
    """Where this process writes what is to be at `path`. The suffix stays: np.savez and pyarrow look at it."""
    return path.with_name(f".{path.stem}.{kind}-{_machine()}-{os.getpid()}{path.suffix}")


def remove_leftovers(folder: pathlib.Path) -> None:
    """Removes what processes of this machine left unfinished in a folder that live no more."""
    for entry in os.scandir(folder):
        found = LEFTOVER.fullmatch(entry.name)
        if found and found["machine"] == _machine() and not _lives(int(found["process"])):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                pathlib.Path(entry.path).unlink(missing_ok=True)


def exchange(first: pathlib.Path, second: pathlib.Path) -> bool:
    """Lets two paths change places in one step; returns whether this system can."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchanging = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    return rename(here, os.fsencode(first), here, os.fsencode(second), exchanging) == 0


@functools.cache
def _machine() -> str:
    """A short name for this machine: on a shared disk, another one's processes cannot be looked up."""
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=3).hexdigest()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


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
    lock = filelock.FileLock(path)
    try:
        with disk_errors_named(path):
            path.parent.mkdir(parents=True, exist_ok=True)
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
