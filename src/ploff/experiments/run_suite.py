"""A suite from what was asked for to its tables: one engine for `ploff train` and `ploff benchmark`."""

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

from ploff.datasets.sources import source_of
from ploff.experiments import estimate, search
from ploff.experiments.executors import STAGES, Executor
from ploff.experiments.executors.local import LocalExecutor
from ploff.experiments.executors.serial import SerialExecutor
from ploff.experiments.jobs import Job
from ploff.experiments.plan import Plan, join_plans, make_plan
from ploff.experiments.run_folder import load_suite, refuse_other_version, write_suite
from ploff.experiments.schedule import BLOCKED, run_jobs
from ploff.experiments.store import Record, Store, warn_of_torn_lines
from ploff.experiments.suite import Suite
from ploff.experiments.tables import Results, write_tables
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
    with store.writing():
        warn_of_torn_lines(store)
        executor = _executor(out, workers, ray, serial, target)
        try:
            yield lambda jobs: run_jobs(jobs, executor, store, quiet=quiet), store, executor.slots
        finally:
            executor.close()


def load_results(out: str | os.PathLike[str]) -> tuple[Suite, Plan, Store]:
    """The suite that a folder holds results of, its plan, and its store."""
    suite = load_suite(pathlib.Path(out))
    return suite, make_plan(suite), Store(out)


def describe(suite: Suite, out: str | os.PathLike[str], slots: int) -> list[str]:
    """What `run_suite` would do, in lines: the data, the jobs, the time."""
    store, plan = Store(out), make_plan(suite)
    lines = [f"suite {suite.name}: {suite.about}".rstrip(": "), f"tasks: {len(suite.tasks)}"]
    lines += [f"  {task}: {source_of(task)}" for task in suite.tasks]
    if suite.search is not None:
        first = search.first_plan(suite)
        count, kind = len(search.candidates(suite.search)), suite.search.kind
        places = list(search.searched(suite))
        lines.append(
            f"search by {kind}: {count} candidates for each of {len(places)} (method, family), "
            f"{suite.search.seeds} seeds: {first.kinds['agent']:,} runs"
            + (f" to step {search.rungs(suite)[0]:,}, then {_rungs(suite)}" if kind == "halving" else "")
        )
        plan = join_plans([first, plan])
    lines.append("jobs: " + ", ".join(f"{count:,} {kind}" for kind, count in plan.kinds.items()))
    done = sum(store.is_done(job.key) for job in plan.jobs)
    if done:
        lines.append(f"done already: {done:,}")
    spent, wall = estimate.seconds(plan.jobs, store), estimate.wall_seconds(plan.jobs, store, slots)
    lines.append(f"estimate: {in_words(spent)} of processor time, {in_words(wall)} on {slots} core(s)")
    return lines


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


def _rungs(suite: Suite) -> str:
    assert suite.search is not None
    factor = suite.search.factor
    return f"about one of {factor} each to " + ", ".join(f"{steps:,}" for steps in search.rungs(suite)[1:])
