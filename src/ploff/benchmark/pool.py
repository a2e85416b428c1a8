"""Worker processes on this machine, a core each. Nothing is needed but Python.

A worker is a fresh process that takes one job after another from its pipe. One that dies loses its job, which the pool
reports, and is replaced. A worker whose driver died ends at once, so that it cannot write into what a new driver does.
"""

import contextlib
import dataclasses
import importlib
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
from multiprocessing import connection
from typing import Any, Protocol

from ploff.benchmark.jobs import Job, Outcome
from ploff.cores import available_cores, keep_to_one_core
from ploff.errors import PloffError

WORK = "ploff.benchmark.work:perform"  # (job, folder) -> result


class Pool(Protocol):
    """Where jobs are run: here, or on a cluster."""

    slots: int  # jobs that run side by side

    def submit(self, job: Job) -> None:
        """Starts a job; there must be a free slot."""
        ...

    def wait(self) -> list[tuple[Job, Outcome]]:
        """Waits until at least one running job has ended; returns those that have."""
        ...

    def close(self) -> None:
        """Ends the workers and whatever they are at."""
        ...


def attempt(target: str, job: Job, folder: str) -> Outcome:
    """Runs a job; what goes wrong in it is its outcome, in one line."""
    began = time.process_time()
    outcome = _attempt(target, job, folder)
    return dataclasses.replace(outcome, processor_seconds=time.process_time() - began)


def _attempt(target: str, job: Job, folder: str) -> Outcome:
    try:
        module, _, name = target.partition(":")
        return Outcome("done", getattr(importlib.import_module(module), name)(job, pathlib.Path(folder)))
    except PloffError as error:
        return Outcome("failed", reason=_line(str(error)))
    except Exception as error:
        traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{pathlib.Path(place.filename).name}:{place.lineno}"
        return Outcome("failed", reason=_line(f"{type(error).__name__}: {error} ({where})"))


class LocalPool:
    """Worker processes of this machine."""

    def __init__(self, folder: str | os.PathLike[str], workers: int | None = None, target: str = WORK):
        self._context = multiprocessing.get_context("spawn")  # JAX's threads do not survive a fork
        self.slots = len(available_cores()) if workers is None else workers
        if self.slots < 1:
            raise PloffError(f"--workers must be at least 1, got {workers}")
        self._folder, self._target = pathlib.Path(folder), target
        self._workers = [self._start(number) for number in range(self.slots)]
        self._jobs: list[Job | None] = [None] * self.slots

    def submit(self, job: Job) -> None:
        """Hands a job to a worker that has none."""
        number = self._jobs.index(None)
        process, pipe = self._workers[number]
        if not process.is_alive():
            process, pipe = self._workers[number] = self._start(number)
        self._jobs[number] = job
        with contextlib.suppress(BrokenPipeError):  # it has just died: `wait` will find it so
            pipe.send(job)

    def wait(self) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended, at least one."""
        busy = [number for number, job in enumerate(self._jobs) if job is not None]
        waited = {self._workers[number][1]: number for number in busy}
        ready = connection.wait(list(waited))
        return [self._collect(waited[pipe]) for pipe in ready]  # pyright: ignore[reportArgumentType]

    def close(self) -> None:
        """Ends all workers."""
        for process, pipe in self._workers:
            pipe.close()
            process.terminate()
        for process, _ in self._workers:
            process.join()

    def _start(self, number: int) -> tuple[Any, connection.Connection]:
        here, there = self._context.Pipe()
        log = self._folder / "logs" / f"worker-{number}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = there, self._target, str(self._folder), str(log)
        process = self._context.Process(target=_serve, args=arguments, daemon=True, name=f"worker {number}")
        process.start()
        there.close()  # the worker's end is the worker's alone: its death then closes the pipe
        return process, here

    def _collect(self, number: int) -> tuple[Job, Outcome]:
        job, (process, pipe) = self._jobs[number], self._workers[number]
        assert job is not None
        try:
            outcome = pipe.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            outcome = Outcome("lost", reason=f"its worker {_death(process.exitcode)}")
            self._workers[number] = self._start(number)
        self._jobs[number] = None
        return job, outcome


def _serve(pipe: connection.Connection, target: str, folder: str, log: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    keep_to_one_core()
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            pipe.send(attempt(target, pipe.recv(), folder))


def _end_with_the_driver() -> None:
    driver = multiprocessing.parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name} (out of memory, perhaps)"
    return f"ended with code {code}"


def _line(text: str) -> str:
    return " ".join(text.split())
