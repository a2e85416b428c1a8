"""A suite from its file to its tables."""

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ploff import storage
from ploff.benchmark import estimate, search
from ploff.benchmark.jobs import Job
from ploff.benchmark.plan import Plan, join, make_plan
from ploff.benchmark.pool import WORK, LocalPool, Pool
from ploff.benchmark.schedule import BLOCKED, run_jobs
from ploff.benchmark.sources import source_of
from ploff.benchmark.store import Record, Store, warn_of_torn_lines
from ploff.benchmark.suite import Suite, parse_suite
from ploff.benchmark.tables import Results, write_tables
from ploff.progress import console

SUITE = "suite.json"  # what the folder's results are of, with the chosen settings


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
    folder: str | os.PathLike[str],
    *,
    workers: int | None = None,
    ray: str | None = None,
    target: str = WORK,
    quiet: bool = False,
) -> SuiteOutcome:
    """Runs what is not done yet of a suite, and writes its tables. Called again, it goes on.

    Args:
      suite: what to run.
      folder: where results, metrics and runs are kept.
      workers: processes on this machine, by default one a core.
      ray: the address of a Ray cluster to run on instead.
      target: what does a job, MODULE:FUNCTION.
      quiet: show no progress.
    """
    began, store = time.monotonic(), Store(folder)
    before = {key for key in store.records if store.is_done(key)}
    with store.writing(), _pool(folder, workers, ray, target) as pool:
        warn_of_torn_lines(store)
        storage.write_json(store.folder / SUITE, to_json(suite))

        def run(jobs: Sequence[Job]) -> None:
            run_jobs(jobs, pool, store, quiet=quiet)

        chosen, choices = search.with_chosen_settings(suite, run, store)
        storage.write_json(store.folder / SUITE, to_json(chosen))
        plan = make_plan(chosen)
        failures = run_jobs(plan.jobs, pool, store, quiet=quiet)
        slots = pool.slots
    results, seconds = Results.of(chosen, plan, store), time.monotonic() - began
    write_tables(results, folder)
    worked = sum(record["seconds"] for key, record in store.records.items() if key not in before)
    return SuiteOutcome(chosen, results, choices, failures, seconds, worked / (slots * seconds))


def load_results(folder: str | os.PathLike[str]) -> tuple[Suite, Plan, Store]:
    """The suite that a folder holds results of, its plan, and its store."""
    suite = parse_suite(storage.read_json(pathlib.Path(folder) / SUITE))
    return suite, make_plan(suite), Store(folder)


def describe(suite: Suite, folder: str | os.PathLike[str], slots: int) -> list[str]:
    """What `run_suite` would do, in lines: the data, the jobs, the time."""
    store, plan = Store(folder), make_plan(suite)
    lines = [f"suite {suite.name}: {suite.about}".rstrip(": "), f"tasks: {len(suite.tasks)}"]
    lines += [f"  {task}: {source_of(task)}" for task in suite.tasks]
    if suite.search is not None:
        first = search.first_plan(suite)
        count, kind = len(search.candidates(suite.search)), suite.search.kind
        places = list(search.searched(suite))
        lines.append(
            f"search by {kind}: {count} candidates for each of {len(places)} (method, family), "
            f"{suite.search.seeds} seeds: {first.kinds['run']:,} runs"
            + (f" to step {search.rungs(suite)[0]:,}, then {_rungs(suite)}" if kind == "halving" else "")
        )
        plan = join([first, plan])
    lines.append("jobs: " + ", ".join(f"{count:,} {kind}" for kind, count in plan.kinds.items()))
    done = sum(store.is_done(job.key) for job in plan.jobs)
    if done:
        lines.append(f"done already: {done:,}")
    spent, wall = estimate.seconds(plan.jobs, store), estimate.wall_seconds(plan.jobs, store, slots)
    lines.append(
        f"estimate: {estimate.in_words(spent)} of processor time, {estimate.in_words(wall)} on {slots} core(s)"
    )
    return lines


def to_json(suite: Suite) -> dict[str, Any]:
    """A suite as `parse_suite` reads it."""
    content = dataclasses.asdict(suite)
    columns = content.pop("columns")
    content["methods"] = {
        column["name"]: {
            name: value for name, value in column.items() if name != "name" and value is not None
        }
        for column in columns
    }
    return content


def show(outcome: SuiteOutcome) -> None:
    """Says how long it took, what was chosen, and what failed and why."""
    console.print(
        f"{estimate.in_words(outcome.seconds)}, workers busy {outcome.busy:.0%} of the time", highlight=False
    )
    for choice in outcome.choices:
        console.print(
            f"chosen for {choice.column} on {choice.family}: {choice.settings} (mean score {choice.score:.1f})",
            highlight=False,
        )
    blocked = 0
    for record in outcome.failures:
        if record["reason"].startswith(BLOCKED):
            blocked += 1
        else:
            console.print(f"failed: {record['label']}: {record['reason']}", highlight=False, markup=False)
    if blocked:
        console.print(f"not begun, because they build on what failed: {blocked} job(s)", highlight=False)


@contextlib.contextmanager
def _pool(
    folder: str | os.PathLike[str], workers: int | None, ray: str | None, target: str
) -> Iterator[Pool]:
    if ray is not None:
        from ploff.benchmark.ray_pool import RayPool

        pool = RayPool(folder, ray, target)
    else:
        pool = LocalPool(folder, workers, target)
    try:
        yield pool
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    finally:
        pool.close()


def _rungs(suite: Suite) -> str:
    assert suite.search is not None
    factor = suite.search.factor
    return f"about one of {factor} each to " + ", ".join(f"{steps:,}" for steps in search.rungs(suite)[1:])
