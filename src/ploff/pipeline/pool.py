"""Several seeds at once: a process a core, each on a core of its own.

An update is too small to be worth sharing out: two processes of one core each train two seeds faster than one process
that has both cores, and faster than both seeds compiled together (`benchmarks/seeds.py`). A seed alone has all cores.
"""

import dataclasses
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any

import jax

from ploff.cores import available_cores
from ploff.environments import registry
from ploff.errors import PloffError, PloffWarning
from ploff.pipeline.agent import WATCHED, SeedJob, steps_done, train_seed
from ploff.progress import Tracker, console, track

PATIENCE = 60.0  # seconds that interrupted processes have to save


@dataclasses.dataclass(frozen=True)
class Failure:
    """A seed that could not be trained, and why."""

    job: SeedJob
    text: str
    mendable: bool  # whether it is the user's to mend
    trace: str = ""

    def __str__(self) -> str:
        return f"{self.job.label} failed: {self.text}"


def run_jobs(jobs: Sequence[SeedJob], *, quiet: bool = False) -> list[Failure]:
    """Trains every job, as many at once as there are cores, and returns those that failed."""
    cores = available_cores()
    if len(jobs) > 1 and len(cores) > 1 and all(map(_can_travel, jobs)):
        return _Crowd(jobs, len(cores)).run(quiet)
    return [failure for job in jobs if (failure := _here(job, alone=len(jobs) == 1, quiet=quiet))]


def _here(job: SeedJob, *, alone: bool, quiet: bool) -> Failure | None:
    try:
        train_seed(job, quiet=quiet)
    except Exception as error:
        if alone:
            raise
        mendable = isinstance(error, PloffError)
        return Failure(job, str(error), mendable, "" if mendable else traceback.format_exc())
    return None


def _can_travel(job: SeedJob) -> bool:
    """Whether another process can train it: an accelerator is one, and environments are registered in a process."""
    known = job.arena is None or registry.known_everywhere(job.arena.environment)
    return jax.default_backend() == "cpu" and known


class _Crowd:
    """The processes, what is waiting, and how far each job is."""

    def __init__(self, jobs: Sequence[SeedJob], at_once: int):
        self.waiting, self.at_once = deque(enumerate(jobs)), at_once
        self.jobs, self.running = jobs, dict[int, subprocess.Popen]()
        self.steps = [steps_done(job) for job in jobs]
        self.values = [dict[str, float]() for _ in jobs]
        self.failures, self.told = list[Failure](), set[int]()  # who has said how it ended
        self.messages: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()

    def run(self, quiet: bool) -> list[Failure]:
        total = sum(job.training.steps for job in self.jobs)
        try:
            with track(self._label(), total, done=sum(self.steps), quiet=quiet) as tracker:
                while self.waiting or self.running:
                    while self.waiting and len(self.running) < self.at_once:
                        self._start(*self.waiting.popleft())
                    self._hear(tracker)
        except KeyboardInterrupt:
            self._interrupt()
            raise KeyboardInterrupt(
                f"interrupted; run the same command again to go on: {self._where()}"
            ) from None
        finally:
            for process in self.running.values():
                process.kill()
        return self.failures

    def _label(self) -> str:
        methods = list(dict.fromkeys(job.method for job in self.jobs))
        return f"{', '.join(methods)}: {len(self.jobs)} runs"

    def _start(self, number: int, job: SeedJob) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "ploff.pipeline.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on once
        )
        self.running[number] = process
        threading.Thread(target=self._listen, args=(number, process), daemon=True).start()
        packed = pickle.dumps(job)
        assert process.stdin is not None
        try:
            process.stdin.write(len(packed).to_bytes(8, "little") + packed)
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended already; the listener tells how

    def _listen(self, number: int, process: subprocess.Popen) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.messages.put((number, json.loads(line)))
        process.wait()
        self.messages.put((number, None))

    def _hear(self, tracker: Tracker) -> None:
        """Waits for one message and acts on it."""
        number, message = self.messages.get()
        job = self.jobs[number]
        if message is None:
            self._ended(number)
        elif message["kind"] == "row":
            self.steps[number] = min(message["step"], job.training.steps - 1)  # until it says that it is done
            self.values[number].update(message["row"])
        elif message["kind"] == "warning":
            warnings.warn(message["text"], PloffWarning, stacklevel=2)
        elif message["kind"] == "done":
            self.steps[number] = job.training.steps
        elif message["kind"] == "failed":
            self.failures.append(
                Failure(job, message["text"], message.get("mendable", False), message.get("trace", ""))
            )
            console.print(f"{self.failures[-1]}; the others go on", highlight=False)
        if message is not None and message["kind"] in ("done", "failed", "interrupted"):
            self.told.add(number)
        if message is not None and message["kind"] in ("row", "done"):
            tracker.update(sum(self.steps), self._shown())

    def _ended(self, number: int) -> None:
        process = self.running.pop(number)
        if number not in self.told:
            how = (
                f"signal {-process.returncode}"
                if process.returncode < 0
                else f"exit code {process.returncode}"
            )
            self.failures.append(Failure(self.jobs[number], f"its process ended with {how}", mendable=True))
            console.print(f"{self.failures[-1]}; the others go on", highlight=False)

    def _shown(self) -> dict[str, float]:
        """The mean of each watched value over the seeds; of several methods, what each has reached."""
        methods = dict.fromkeys(job.method for job in self.jobs)
        if len(methods) == 1:
            means = {name: self._mean(name) for name in WATCHED}
        else:
            means = {method: self._mean(("score", "mean_return", "mean_q"), method) for method in methods}
        return {name: mean for name, mean in means.items() if mean is not None}

    def _mean(self, name: str | tuple[str, ...], method: str | None = None) -> float | None:
        """The mean over those jobs, of the first name that any of them has."""
        rows = [row for job, row in zip(self.jobs, self.values, strict=True) if method in (None, job.method)]
        for each in (name,) if isinstance(name, str) else name:
            if values := [row[each] for row in rows if each in row]:
                return sum(values) / len(values)
        return None

    def _interrupt(self) -> None:
        """Passes Ctrl-C on, and waits until everyone has saved."""
        for process in self.running.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGINT)
        for process in self.running.values():
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()

    def _where(self) -> str:
        return ", ".join(
            f"{job.label} at step {step:,}" for job, step in zip(self.jobs, self.steps, strict=True)
        )
