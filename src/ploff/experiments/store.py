"""Results on disk: one file, a line of JSON for each job that ended, only ever appended to.

A line is written in one call and flushed to the disk before the next job is handed out. Whatever kills the writer, and
whenever, leaves at most one line that is not whole; such a line, or one whose digest is not its own, counts for
nothing and stays where it is. A line that cannot be written (a full disk) is taken back, and what was written before
stays.
"""

import contextlib
import json
import os
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

from ploff.utils import files
from ploff.utils.errors import PloffError, PloffWarning

RESULTS = "results.jsonl"
Record: TypeAlias = dict[str, Any]  # as `ploff.experiments.schedule` makes them


class Store:
    """The results in a folder; the last record of a key counts."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = pathlib.Path(folder)
        self.path = self.folder / RESULTS
        self.records: dict[str, Record] = {}
        self.torn = 0  # lines that are not whole
        self._is_written = False  # by this process, in a folder that it has seen
        for line in self.path.read_bytes().splitlines() if self.path.exists() else []:
            self._take_in(line)

    def is_done(self, key: str) -> bool:
        """Whether the job of that key ended well."""
        return key in self.records and self.records[key]["status"] == "done"

    def result(self, key: str) -> dict[str, Any]:
        """What the job of that key returned."""
        return self.records[key]["result"]

    def failures(self) -> list[Record]:
        """The records of jobs that failed, and have not been done since."""
        return [record for record in self.records.values() if record["status"] != "done"]

    def append(self, record: Record) -> None:
        """Adds a record; once this returns, it is on the disk."""
        line = json.dumps({**record, files.DIGEST: files.digest(record, 16)}).encode() + b"\n"
        if self._is_written and not (self.folder / ".lock").exists():
            raise PloffError(f"{self.folder} is gone: it was moved or deleted while results were written to it")
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            os.lseek(descriptor, max(size - 1, 0), os.SEEK_SET)
            if size and os.read(descriptor, 1) != b"\n":
                line = b"\n" + line  # behind a line that was cut off
            self._write(descriptor, line, size)
        finally:
            os.close(descriptor)
        self.records[record["key"]] = record

    @contextlib.contextmanager
    def writing(self) -> Iterator["Store"]:
        """Keeps other writers away while the block runs."""

        def refuse() -> None:
            raise PloffError(f"another command is writing to {self.folder}; wait for it, or choose another --out")

        with files.locked(self.folder / ".lock", when_taken=refuse):
            self._is_written = True
            try:
                yield self
            finally:
                self._is_written = False

    def _take_in(self, line: bytes) -> None:
        try:
            record = files.check_record(json.loads(line))
            self.records[record["key"]] = record
        except (ValueError, TypeError, KeyError):
            self.torn += bool(line)

    def _write(self, descriptor: int, line: bytes, size: int) -> None:
        try:
            written = os.write(descriptor, line)
            if written < len(line):  # the rest says why
                os.write(descriptor, line[written:])
            os.fsync(descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
            raise PloffError(
                f"{self.path} cannot be written: {error.strerror}; the {len(self.records)} results in it are safe, "
                "and the same command goes on once there is room"
            ) from error


def warn_of_torn_lines(store: Store) -> None:
    """Says that something was cut off, once."""
    if store.torn:
        warnings.warn(
            f"{store.path}: {store.torn} line(s) were cut off or are damaged, and count for nothing",
            PloffWarning,
            stacklevel=2,
        )
