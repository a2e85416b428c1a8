"""Progress that people can read: live bars on a terminal, a line now and then in a file; 80 columns suffice.

Long work is a generator that yields `Progress` and returns its result: `follow` shows one, an executor many.
"""

import contextlib
import time
from collections.abc import Generator, Iterator, Mapping
from typing import NamedTuple, TypeVar

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column

from ploff.utils import interrupts

SECONDS_BETWEEN_LINES = 15.0
WIDTH = 80
MAX_LINES = 4  # jobs that a file names at a time
NOTHING: Mapping[str, float] = {}
Result = TypeVar("Result")

console = Console(stderr=True, highlight=False, markup=False)


def say(text: str) -> None:
    """Prints a line for people, on standard error."""
    console.print(text, soft_wrap=True)


class Progress(NamedTuple):
    """How far a piece of work is, and the numbers worth watching."""

    step: int
    total: int
    values: Mapping[str, float] = NOTHING


class _Task:
    """One piece of work that is shown."""

    def __init__(self, first: Progress, bar: TaskID | None):
        self.first, self.latest, self.bar, self.began = first, first, bar, time.monotonic()

    @property
    def rate(self) -> float:
        return (self.latest.step - self.first.step) / max(time.monotonic() - self.began, 1e-9)

    def line(self, label: str) -> str:
        step, total, _ = self.latest
        seconds = (total - step) / max(self.rate, 1e-9)
        left = "done" if step >= total else f"{in_words(seconds)} left" if self.rate else ""
        return _fitted([f"{label}: {step:,}/{total:,}", f"{self.rate:,.0f}/s", left, *_shown(self.latest)])


class Display:
    """Shows pieces of work by their labels, for the length of a `with` block."""

    def __init__(self, *, quiet: bool = False):
        self._quiet, self._bars, self._printed = quiet, None, time.monotonic()
        self._tasks: dict[str, _Task] = {}
        self._overall = ""

    def __enter__(self) -> "Display":
        if not self._quiet and console.is_terminal:
            self._bars = Bars(
                TextColumn("{task.description}", table_column=Column(no_wrap=True, max_width=26)),
                BarColumn(bar_width=12),
                TextColumn("{task.completed:,}/{task.total:,}"),
                TimeRemainingColumn(compact=True),
                TextColumn("{task.fields[values]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
                console=console,
                expand=True,
            )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def update(self, label: str, progress: Progress) -> None:
        """Shows how far a piece of work is; the first call begins it."""
        if self._quiet:
            return
        task = self._tasks.setdefault(label, _Task(progress, None))
        task.latest = progress
        if self._bars is None:
            if progress.step >= progress.total and task.first.step < progress.total:
                say(task.line(label))
            else:
                self._print_now_and_then()
            return
        if task.bar is None:
            task.bar = self._bars.add_task(label, total=progress.total, completed=progress.step, values="")
        shown = "  ".join(_shown(progress))
        self._bars.update(task.bar, completed=progress.step, total=progress.total, values=shown)

    def remove(self, label: str) -> None:
        """Ends a piece of work."""
        task = self._tasks.pop(label, None)
        if task is not None and task.bar is not None and self._bars is not None and len(self._tasks) > 0:
            self._bars.remove_task(task.bar)

    def set_overall(self, text: str) -> None:
        """How far all of the work is, for the line above the others."""
        self._overall = text
        if self._bars is None and not self._quiet:
            self._print_now_and_then()

    def _print_now_and_then(self) -> None:
        if time.monotonic() - self._printed < SECONDS_BETWEEN_LINES:
            return
        self._printed = time.monotonic()
        lines = [self._overall] if self._overall else []
        lines += [task.line(label) for label, task in list(self._tasks.items())[:MAX_LINES]]
        for line in lines:
            say(line)


@contextlib.contextmanager
def track(label: str, total: int, *, quiet: bool = False) -> Iterator["Tracker"]:
    """Shows a loop's progress while the block runs."""
    with Display(quiet=quiet) as display:
        yield Tracker(display, label, total)


class Tracker:
    """One loop of known length."""

    def __init__(self, display: Display, label: str, total: int):
        self._display, self._label, self._total = display, label, total
        display.update(label, Progress(0, total))

    def update(self, done: int, values: Mapping[str, float] = NOTHING) -> None:
        """Shows how many of the loop's steps are done, and values beside it."""
        self._display.update(self._label, Progress(done, self._total, values))


def follow(label: str, work: Generator[Progress, None, Result], *, quiet: bool = False) -> Result:
    """Runs a generator to its end, shows what it yields, and returns its result."""
    with interrupts.handled(), Display(quiet=quiet) as display, contextlib.closing(work):
        while True:
            interrupts.check()
            try:
                display.update(label, next(work))
            except StopIteration as end:
                return end.value


def in_words(seconds: float) -> str:
    """A duration as people say it."""
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _shown(progress: Progress) -> list[str]:
    return [f"{name} {value:.4g}" for name, value in progress.values.items()]


def _fitted(parts: list[str]) -> str:
    """As many of the parts as a line holds."""
    line = parts[0]
    for part in parts[1:]:
        if part and len(line) + 2 + len(part) <= WIDTH:
            line += f"  {part}"
    return line
