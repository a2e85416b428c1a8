"""One job at a time, in this process, with all of its cores. A run that is alone learns fastest so."""

import os
from collections.abc import Generator

from ploff.experiments.executors import STAGES, attempt
from ploff.experiments.jobs import Event, Job, Outcome


class SerialExecutor:
    """Runs a job while somebody waits for it."""

    slots = 1

    def __init__(self, folder: str | os.PathLike[str], target: str = STAGES):
        self._folder, self._target = str(folder), target
        self._running: tuple[Job, Generator[Event, None, None]] | None = None

    def submit(self, job: Job) -> None:
        """Takes the job; `wait` runs it."""
        self._running = job, attempt(self._target, job, self._folder)

    def wait(self) -> list[tuple[Job, Event]]:
        """Runs the job to its next event."""
        assert self._running is not None
        job, events = self._running
        event = next(events)
        if isinstance(event, Outcome):
            self._running = None
        return [(job, event)]

    def close(self) -> None:
        """Lets the running job save what it has."""
        if self._running is not None:
            self._running[1].close()
            self._running = None
