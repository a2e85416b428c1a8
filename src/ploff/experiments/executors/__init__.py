"""Executors: where jobs run. In this process, in local worker processes, or on a Ray cluster.

A job's work is a generator of `Progress` that returns its result. An executor turns it into events: progress, warnings,
and one outcome. Closing an executor closes the generators of its running jobs, which lets them save what they have.
"""

import contextlib
import dataclasses
import importlib
import pathlib
import time
import traceback
import warnings
from collections.abc import Generator
from typing import Any, Protocol, runtime_checkable

from ploff.experiments.jobs import Event, Job, Outcome, Warned
from ploff.utils.errors import PloffError, PloffWarning
from ploff.utils.progress import Progress

STAGES = "ploff.experiments.stages:perform"  # (job, folder) to a generator of progress that returns the result


@runtime_checkable
class Executor(Protocol):
    """Where jobs run."""

    slots: int  # jobs that run side by side

    def submit(self, job: Job) -> None:
        """Starts a job; there must be a free slot."""
        ...

    def wait(self) -> list[tuple[Job, Event]]:
        """Waits for what running jobs have to tell; returns it, or nothing after a while."""
        ...

    def close(self) -> None:
        """Stops what is running, and lets go of the workers."""
        ...


def attempt(target: str, job: Job, folder: str) -> Generator[Event, None, None]:
    """Runs a job; what goes wrong in it is its outcome, in one line."""
    began = time.process_time()
    try:
        module, _, name = target.partition(":")
        work = getattr(importlib.import_module(module), name)(job, pathlib.Path(folder))
        outcome = Outcome("done", (yield from _relay(work)))
    except PloffError as error:
        outcome = Outcome("failed", reason=_one_line(str(error)))
    except Exception as error:
        traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{pathlib.Path(place.filename).name}:{place.lineno}"
        reason = _one_line(f"{type(error).__name__}: {error} ({where})")
        outcome = Outcome("failed", reason=reason, mendable=isinstance(error, (OSError, MemoryError)))
    yield dataclasses.replace(outcome, processor_seconds=time.process_time() - began)


def _relay(work: Generator[Progress, None, dict[str, Any]]) -> Generator[Event, None, dict[str, Any]]:
    """Yields what the work yields, and its warnings; returns its result."""
    with contextlib.closing(work):
        while True:
            result, progress = None, None
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", PloffWarning)
                try:
                    progress = next(work)
                except StopIteration as end:
                    result = end.value or {}
            for warning in caught:
                if issubclass(warning.category, PloffWarning):
                    yield Warned(_one_line(str(warning.message)))
                else:
                    warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
            if progress is None:
                return result or {}
            yield progress


def _one_line(text: str) -> str:
    return " ".join(text.split())
