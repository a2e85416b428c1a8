"""What there is to tell: runs of `ploff train`, suites of `ploff benchmark`, and the metrics behind them."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from ploff.datasets.sources import short_name
from ploff.experiments.run_folder import SUITE, SeedResult, find_run_folders, read_config, read_run
from ploff.experiments.run_suite import load_results
from ploff.experiments.schedule import BLOCKED
from ploff.experiments.tables import Results
from ploff.metric.train import CHECKPOINT, LearnedMetric, load_metric
from ploff.report.charts import series_style
from ploff.training.loop import Row
from ploff.utils.errors import PloffError


@dataclasses.dataclass(frozen=True)
class Group:
    """The seeds of one method on one task."""

    task: str
    column: str
    config: dict[str, Any]  # as config.json has it
    seeds: list[SeedResult]
    folders: tuple[pathlib.Path, ...] = ()  # one, or one per seed where each has a metric of its own


def last_rows(group: Group) -> list[Row]:
    """Where each seed's history ends."""
    return [result.history[-1] for result in group.seeds if result.history]


@dataclasses.dataclass(frozen=True)
class TaskMetric:
    """A learned metric, and the log that it was learned from."""

    task: str
    folder: pathlib.Path
    learned: LearnedMetric
    dataset: str  # what `ploff.load` is to be given
    reading: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Everything that a page is made of."""

    title: str
    groups: list[Group]
    results: Results
    metrics: list[TaskMetric]
    failures: list[tuple[str, str]]  # what failed, and why

    @property
    def tasks(self) -> list[str]:
        """The datasets, in order."""
        return list(dict.fromkeys(group.task for group in self.groups))

    @property
    def columns(self) -> list[str]:
        """The methods, in order."""
        return list(dict.fromkeys(group.column for group in self.groups))

    @property
    def styles(self) -> dict[str, str]:
        """The look of each method, in every chart and table."""
        return {column: series_style(number) for number, column in enumerate(self.columns)}


def gather(paths: Sequence[str | os.PathLike[str]]) -> ReportData:
    """Reads run folders, folders of them, and folders of suites."""
    groups, failures, paper, titles = list[Group](), list[tuple[str, str]](), dict[str, str](), list[str]()
    for path in map(pathlib.Path, paths):
        if not path.is_dir():
            raise PloffError(f"no folder {path}; `ploff train` and `ploff benchmark` make what a report is about")
        found = list(_of_suite(path, failures, paper) if (path / SUITE).exists() else _of_runs(path))
        if not found:
            raise PloffError(f"no runs in {path}; `ploff train DATASET --out {path}` makes one")
        groups += found
        titles.append(path.resolve().name)
    groups = _distinct(groups)
    return ReportData(", ".join(titles), groups, _results(groups, paper), _metrics(groups), failures)


def _of_runs(path: pathlib.Path) -> Iterator[Group]:
    """Run folders at or below a path."""
    for run in map(read_run, find_run_folders(path)):
        if run.seeds:
            yield Group(short_name(run.config["dataset"]), run.method, run.config, run.seeds, (run.folder,))


def _of_suite(path: pathlib.Path, failures: list[tuple[str, str]], paper: dict[str, str]) -> Iterator[Group]:
    """A suite's runs that are done, by task and method."""
    suite, plan, store = load_results(path)
    failed = [(record["label"], record["reason"]) for record in store.failures()]
    failures += [(label, reason) for label, reason in failed if not reason.startswith(BLOCKED)]
    if blocked := sum(reason.startswith(BLOCKED) for _, reason in failed):
        failures.append((f"{blocked} more", "not begun, because they build on what failed"))
    paper.update({column.name: column.paper for column in suite.columns if column.paper})
    for task in suite.tasks:
        for column in suite.columns:
            keys = {r.seed: r.job.key for r in plan.runs if (r.task, r.column) == (task, column.name)}
            done = {seed: store.result(key)["folder"] for seed, key in keys.items() if store.is_done(key)}
            runs = {folder: read_run(path / folder) for folder in dict.fromkeys(done.values())}
            seeds = [r for folder, run in runs.items() for r in run.seeds if done.get(r.seed) == folder]
            if seeds:
                config, folders = next(iter(runs.values())).config, tuple(run.folder for run in runs.values())
                yield Group(short_name(task), column.name, config, sorted(seeds, key=lambda r: r.seed), folders)


def _distinct(groups: list[Group]) -> list[Group]:
    """Groups of the same task and method under names that tell them apart."""
    named, seen = [], dict[tuple[str, str], int]()
    for group in groups:
        count = seen[group.task, group.column] = seen.get((group.task, group.column), 0) + 1
        named.append(group if count == 1 else dataclasses.replace(group, column=f"{group.column} ({count})"))
    return named


def _results(groups: list[Group], paper: dict[str, str]) -> Results:
    tasks = tuple(dict.fromkeys(group.task for group in groups))
    columns = dict.fromkeys(group.column for group in groups)
    scores = {column: {task: list[float]() for task in tasks} for column in columns}
    runs = []
    for group in groups:
        for result in group.seeds:
            if result.score is not None:
                scores[group.column][group.task].append(result.score)
                runs.append((group.task, group.column, result.seed, result.score))
    return Results(scores, tuple(runs), tasks, {name: paper[name] for name in columns if name in paper})


def _metrics(groups: list[Group]) -> list[TaskMetric]:
    """Each metric once."""
    found: dict[pathlib.Path, TaskMetric] = {}
    for group in groups:
        for folder in group.folders if group.config["distance"] == "learned" else ():
            place = (folder / read_config(folder)["metric"]).resolve()
            if place not in found and (place / CHECKPOINT).exists():
                dataset, reading = group.config["dataset"], group.config["reading"]
                found[place] = TaskMetric(group.task, place, load_metric(place), dataset, reading)
    return list(found.values())
