"""Worker processes on this machine, one core each. Nothing is needed but Python.

A worker is a fresh process that takes one job after another from its pipe. One that dies loses its job, which the
executor reports, and is replaced. A worker whose driver died ends at once, so that it cannot write into what a new
driver does.
"""

import contextlib
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
from multiprocessing import connection
from typing import Any

from ploff.experiments.executors import STAGES, attempt
from ploff.experiments.jobs import Event, Job, Outcome
from ploff.utils.cores import available_cores, pin_to_one_core
from ploff.utils.errors import PloffError

SECONDS_TO_SAVE = 60.0  # that stopped workers have
SECONDS_BETWEEN_LOOKS = 0.5
STOP = None  # in place of a job


class LocalExecutor:
    """Worker processes of this machine."""

    def __init__(self, folder: str | os.PathLike[str], workers: int | None = None, target: str = STAGES):
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

    def wait(self) -> list[tuple[Job, Event]]:
        """What the running jobs tell; nothing after a while, for the caller to look for Ctrl-C."""
        busy = [number for number, job in enumerate(self._jobs) if job is not None]
        waited = {self._workers[number][1]: number for number in busy}
        ready = connection.wait(list(waited), SECONDS_BETWEEN_LOOKS)
        return [self._receive(waited[pipe]) for pipe in ready]  # pyright: ignore[reportArgumentType]

    def close(self) -> None:
        """Lets running jobs save what they have, and ends all workers."""
        for (_, pipe), job in zip(self._workers, self._jobs, strict=True):
            with contextlib.suppress(BrokenPipeError, OSError):
                pipe.send(STOP)
            if job is None:
                pipe.close()
        for process, pipe in self._workers:
            _drain(pipe)
            process.join(SECONDS_TO_SAVE)
            if process.is_alive():
                process.kill()
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

    def _receive(self, number: int) -> tuple[Job, Event]:
        job, (process, pipe) = self._jobs[number], self._workers[number]
        assert job is not None
        try:
            event = pipe.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            event = Outcome("lost", reason=f"its worker {_death(process.exitcode)}")
            self._workers[number] = self._start(number)
        if isinstance(event, Outcome):
            self._jobs[number] = None
        return job, event


def _serve(pipe: connection.Connection, target: str, folder: str, log: str) -> None:
    _leave_to_the_driver("SIGINT", "SIGHUP")
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    pin_to_one_core()
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while (job := pipe.recv()) is not STOP:
            # A signal to the whole group must not cut a job off that the driver is about to let save what it has;
            # a worker without a job ends.
            _leave_to_the_driver("SIGTERM")
            with contextlib.closing(attempt(target, job, folder)) as events:
                for event in events:
                    pipe.send(event)
                    if not isinstance(event, Outcome) and pipe.poll():  # while a job runs, only a stop can come
                        return
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave_to_the_driver(*names: str) -> None:
    """Ignores signals that the driver answers by stopping its workers."""
    for name in names:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _drain(pipe: connection.Connection) -> None:
    """Takes what a stopping worker still sends, so that it does not wait for room in the pipe."""

    def take() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                pipe.recv()

    if not pipe.closed:
        threading.Thread(target=take, daemon=True).start()


def _end_with_the_driver() -> None:
    driver = multiprocessing.parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name} (out of memory, perhaps)"
    return f"ended with code {code}"
