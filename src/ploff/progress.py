"""Progress that people can read: a live bar on a terminal, a line now and then in a log file."""

import contextlib
import time
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LOG_EVERY_SECONDS = 15.0

console = Console(stderr=True)


class Tracker:
    """One piece of long work: how much is done, how fast, how long still, and whatever else is worth watching."""

    def __init__(self, label: str, total: int, done: int = 0):
        self.label, self.total, self.done = label, total, done
        self._first, self._began, self._logged = done, time.monotonic(), time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None

    def update(self, done: int, values: Mapping[str, float] | None = None) -> None:
        """Says how far the work is; `values` are shown beside it."""
        self.done = done
        shown = "  ".join(f"{name} {value:.4g}" for name, value in (values or {}).items())
        if self._bar is not None:
            progress, task = self._bar
            progress.update(task, completed=done, values=shown, rate=self._rate())
        elif time.monotonic() - self._logged >= LOG_EVERY_SECONDS or done >= self.total:
            self._logged = time.monotonic()
            console.print(
                f"{self.label}: {done:,}/{self.total:,}  {self._rate()}  {self._left()}  {shown}".rstrip(),
                highlight=False,
                soft_wrap=True,
            )

    def _speed(self) -> float:
        return (self.done - self._first) / max(time.monotonic() - self._began, 1e-9)

    def _rate(self) -> str:
        return f"{self._speed():,.0f}/s"

    def _left(self) -> str:
        seconds = (self.total - self.done) / max(self._speed(), 1e-9)
        return "done" if self.done >= self.total else f"{seconds / 60:.1f} min left"


@contextlib.contextmanager
def track(label: str, total: int, *, done: int = 0, quiet: bool = False) -> Iterator[Tracker]:
    """Shows progress while the block runs; `done` is where resumed work begins. `quiet` shows nothing."""
    tracker = Tracker(label, total, done)
    if quiet:
        tracker._logged = float("inf")
        tracker.total = total + 1  # never reaches its last line
        yield tracker
    elif console.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,}"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[values]}"),
        )
        with Progress(*columns, console=console) as progress:
            tracker._bar = progress, progress.add_task(label, total=total, completed=done, values="", rate="")
            yield tracker
    else:
        yield tracker
