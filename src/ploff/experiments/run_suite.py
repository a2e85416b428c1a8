"""A suite from what was asked for to its tables: one engine for `ploff train` and `ploff benchmark`."""

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

from ploff.experiments import search
from ploff.experiments.executors import STAGES, Executor
from ploff.experiments.executors.local import LocalExecutor
from ploff.experiments.executors.serial import SerialExecutor
from ploff.experiments.jobs import Job
from ploff.experiments.plan import Plan, make_plan
from ploff.experiments.run_folder import load_suite, refuse_other_version, write_suite
from ploff.experiments.schedule import BLOCKED, run_jobs
from ploff.experiments.store import Record, Store, warn_of_torn_lines
from ploff.experiments.suite import Suite
from ploff.experiments.tables import Results, write_tables
from ploff.utils import files, interrupts
from ploff.utils.progress import in_words, say


@dataclasses.dataclass(frozen=True)
class SuiteOutcome:
    """What a suite came to."""

    suite: Suite  # with the settings that were chosen
    results: Results
    choices: list[search.Choice]
    failures: list[Record]
    seconds: float
    busy: float  # share of the workers' time in which they had a job


def run_suite(
    suite: Suite,
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    ray: str | None = None,
    serial: bool = False,
    target: str = STAGES,
    quiet: bool = False,
) -> SuiteOutcome:
    """Runs what is not done yet of a suite, and writes its tables. Called again, it resumes.

    Args:
      suite: what to run.
      out: the folder of results, metrics and runs.
      workers: processes on this machine, by default one per core.
      ray: the address of a Ray cluster to run on instead.
      serial: run in this process instead, one job at a time, with all of its cores.
      target: what does a job, MODULE:FUNCTION.
      quiet: show no progress.
    """
    out = pathlib.Path(out)
    for note in [] if quiet else suite.notes:
        say(note)

    def work(run: Callable[[Sequence[Job]], list[Record]], store: Store) -> SuiteOutcome:
        began, before = time.monotonic(), {key for key in store.records if store.is_done(key)}
        write_suite(out, suite)
        chosen, choices = search.with_chosen_settings(suite, run, store)
        write_suite(out, chosen)
        plan = make_plan(chosen)
        failures = run(plan.jobs)
        results, seconds = Results.of(chosen, plan, store), time.monotonic() - began
        write_tables(results, out)
        worked = sum(record["seconds"] for key, record in store.records.items() if key not in before)
        return SuiteOutcome(chosen, results, choices, failures, seconds, worked / max(seconds, 1e-9))

    with engine(out, workers=workers, ray=ray, serial=serial, target=target, quiet=quiet) as (run, store, slots):
        outcome = work(run, store)
    return dataclasses.replace(outcome, busy=outcome.busy / slots)


@contextlib.contextmanager
def engine(
    out: pathlib.Path,
    *,
    workers: int | None = None,
    ray: str | None = None,
    serial: bool = False,
    target: str = STAGES,
    quiet: bool = False,
) -> Iterator[tuple[Callable[[Sequence[Job]], list[Record]], Store, int]]:
    """An executor over the store of a folder, which nobody else may write to meanwhile.

    Yields a function that runs jobs and returns the failed ones, the store, and how many jobs run side by side.
    """
    refuse_other_version(out)
    store = Store(out)
    with interrupts.handled(), store.writing():
        warn_of_torn_lines(store)
        for folder in {leftover.parent for leftover in out.rglob(".*.partial-*")}:
            files.remove_leftovers(folder)
        executor = _executor(out, workers, ray, serial, target)
        try:
            yield lambda jobs: run_jobs(jobs, executor, store, quiet=quiet), store, executor.slots
        finally:
            executor.close()


def load_results(out: str | os.PathLike[str]) -> tuple[Suite, Plan, Store]:
    """The suite that a folder holds results of, its plan, and its store."""
    suite = load_suite(pathlib.Path(out))
    return suite, make_plan(suite), Store(out)


def report_outcome(outcome: SuiteOutcome) -> None:
    """Says how long it took, what was chosen, and what failed and why."""
    say(f"{in_words(outcome.seconds)}, workers busy {outcome.busy:.0%} of the time")
    for choice in outcome.choices:
        score = f"mean score {choice.score:.1f}"
        say(f"chosen for {choice.column} on {choice.family}: {choice.settings} ({score})")
    blocked = [record for record in outcome.failures if record["reason"].startswith(BLOCKED)]
    for record in outcome.failures:
        if record not in blocked:
            say(f"failed: {record['label']}: {record['reason']}")
    if blocked:
        say(f"not begun, because they build on what failed: {len(blocked)} job(s)")


def _executor(out: pathlib.Path, workers: int | None, ray: str | None, serial: bool, target: str) -> Executor:
    if ray is not None:
        from ploff.experiments.executors.ray import RayExecutor

        return RayExecutor(out, ray, target)
    return SerialExecutor(out, target) if serial else LocalExecutor(out, workers, target)
