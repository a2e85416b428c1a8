"""What a suite would run, in lines: data, columns, cells, jobs, and their price on a laptop and on clusters."""

import os
from collections.abc import Iterator, Sequence

from ploff.datasets.catalog import paper_name
from ploff.datasets.sources import short_name, source_of
from ploff.experiments import estimate, search
from ploff.experiments.jobs import Job
from ploff.experiments.paper import paper_scores
from ploff.experiments.plan import join_plans, make_plan
from ploff.experiments.store import Store
from ploff.experiments.suite import Column, Suite
from ploff.utils.progress import in_words

CORES = (2, 64, 1024)  # that every plan is priced for


def describe(suite: Suite, out: str | os.PathLike[str], slots: int | None = None) -> list[str]:
    """What `run_suite` would do.

    Args:
      suite: what would be run.
      out: the folder of results; what is done there is not counted.
      slots: a number of cores to price it for, beside the usual ones.
    """
    store, plan = Store(out), make_plan(suite)
    lines = [f"suite {suite.name}: {suite.about}".rstrip(": "), f"tasks: {len(suite.tasks)}"]
    lines += [f"  {task}: {source_of(task)}" for task in suite.tasks]
    lines += [f"columns: {len(suite.columns)}", *(f"  {_column(suite, column)}" for column in suite.columns)]
    lines += [*_protocol(suite), *suite.notes]
    if suite.search is not None:
        first = search.first_plan(suite)
        lines.append(_search(suite, first.kinds["agent"]))
        plan = join_plans([first, plan])
    lines.append("jobs: " + ", ".join(f"{count:,} {kind}" for kind, count in plan.kinds.items()))
    if done := sum(store.is_done(job.key) for job in plan.jobs):
        lines.append(f"done already: {done:,}")
    return [*lines, price(plan.jobs, store, slots)]


def price(jobs: Sequence[Job], store: Store, slots: int | None = None) -> str:
    """The processor time of what is left to do, and the time by the clock on so many cores."""
    counts: set[int] = set(CORES) if slots is None else {*CORES, slots}
    walls = [f"{in_words(estimate.wall_seconds(jobs, store, count))} on {count:,} cores" for count in sorted(counts)]
    return f"estimate: {in_words(estimate.seconds(jobs, store))} of processor time; {', '.join(walls)}"


def papers_cells(suite: Suite) -> list[tuple[str, str]]:
    """The cells of the paper's Table 1 that a suite has a column for: (dataset, the paper's column)."""
    known = paper_scores()
    named = [(paper_name(short_name(task)), column.paper) for task in suite.tasks for column in suite.columns]
    return [(task, name) for task, name in named if task and name and (task, name) in known]


def _column(suite: Suite, column: Column) -> str:
    method = "" if column.name == column.method else f", method {column.method}"
    paper = f", the paper's {column.paper}" if column.paper else ""
    preset = column.preset or suite.preset
    return f"{column.name}{method}{paper}" + (f", preset {preset}" if preset != "default" else "")


def _protocol(suite: Suite) -> Iterator[str]:
    cells, papers = len(suite.tasks) * len(suite.columns), len(papers_cells(suite))
    of_paper = f": {papers} of the paper's Table 1, {cells - papers} others" if papers else ""
    yield f"cells: {cells}{of_paper}; seeds: {len(suite.seeds)}"
    metrics = "one per seed" if suite.metric_per_seed else "shared by all seeds"
    last = "the last evaluation" if suite.num_last == 1 else f"the mean of the last {suite.num_last} evaluations"
    yield f"metrics: {metrics}; score: {last}"


def _search(suite: Suite, runs: int) -> str:
    asked = suite.search
    assert asked is not None
    count, places = len(search.candidates(asked)), len(list(search.searched(suite)))
    line = f"search by {asked.kind}: {count} candidates for each of {places} (method, family), {asked.seeds} seeds"
    if asked.kind == "grid":
        return f"{line}: {runs:,} runs"
    first, *later = (f"{steps:,}" for steps in search.rungs(suite))
    return f"{line}: {runs:,} runs to step {first}, then about one of {asked.factor} each to {', '.join(later)}"
