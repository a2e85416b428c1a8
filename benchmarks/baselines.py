"""Every method on some tasks: a resumable table of scores, with intervals, beside the published ones.

    python benchmarks/baselines.py DATASET … --out FOLDER [--methods all] [--seeds 3] [--steps 50000]
        [--record benchmarks/results/baselines.csv] [--set cql.gap_states=32]

A dataset is what `ploff.load` takes; NAME=DATASET calls it by another name in the table. Runs go through
`ploff.pipeline`, as many at once as there are cores, each on a core of its own; run again, finished ones are skipped
and those that were cut off go on. A run's score is the mean of its last three evaluations, of ten episodes each.

The record is a row an evaluation, of all runs ever, with its worst and its best episode and what the run saw of its
values at that step (rows of older runs lack these); FOLDER/evaluations.csv unless it is named. What it holds is not run
again, even where the run folders are gone, and what a run had after fewer steps is what a shorter one would have: no
method here depends on how long it is going to be. `--table` only prints. Several of these may share a record. Where a
method has changed since, remove its rows.

Methods have their own defaults, and what their authors chose for the dataset that the task is named after, where they
did (`published_settings.csv`); `--set` comes last. The record says what was not a default, and only runs with the same
settings count.

A cell is the mean over seeds with Student's 95% interval of it; the last column is the mean over tasks, of the seeds
that were run on all of them. Published scores stand beside it in small type: those of the paper's Table 1 (v0
datasets), and of a method's own paper or of CORL where it is younger (`published_scores.csv`). They are of other
datasets, of longer training, and of other physics than a log of one's own: a landmark, not a test.
"""

import argparse
import collections
import csv
import pathlib
from collections.abc import Iterable
from typing import Any

from ploff.agents import METHODS
from ploff.benchmark.paper import paper_scores
from ploff.errors import PloffError
from ploff.pipeline import Run, compare
from ploff.pipeline.runs import SeedResult, student_interval
from ploff.pipeline.settings import METRIC, assignments, by_owner
from ploff.storage import exclusive
from ploff.training import Row, write_csv

PAPER_NAMES = {
    "bc": "BC", "bear": "BEAR", "brac-v": "BRAC-v", "awr": "AWR", "bcq": "BCQ", "cql": "CQL",
    "ploff": "PLOff", "ploff-l2": "PLOff-L2", "td3-off": "TD3-Off",
}  # fmt: skip
WATCHED = ("mean_q", "largest_q", "q_bound", "discrepancy")  # of a run's history, where its method tells it


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+", metavar="[NAME=]DATASET")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--evaluate-every", type=int, default=5_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--metric-steps", type=int)
    parser.add_argument("--set", nargs="+", default=[], metavar="METHOD.NAME=VALUE", action="extend")
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    methods = list(METHODS) if options.methods == "all" else options.methods.split(",")
    tasks = dict(named(dataset) for dataset in options.datasets)
    record = Record(options.record or options.out / "evaluations.csv")
    given = by_owner(assignments(options.set), methods)
    problems = []
    for task, dataset in {} if options.table else tasks.items():
        settings = with_published(task, given)
        for seeds, missing in record.missing(task, methods, options.seeds, options.steps, settings):
            try:
                runs = compare(
                    dataset,
                    missing,
                    out=options.out / task,
                    steps=options.steps,
                    seeds=seeds,
                    evaluate_every=options.evaluate_every,
                    episodes=options.episodes,
                    metric_steps=options.metric_steps,
                    settings={
                        f"{owner}.{name}": value
                        for owner in (*missing, METRIC)
                        for name, value in settings[owner].items()
                    },
                )
                record.add(task, runs, settings)
            # The other runs, and the other tasks, are not lost by it.
            except (PloffError, RuntimeError) as error:
                problems.append(f"{task}: {error}")
    print(table(record, list(tasks), methods, options.steps, given))
    if problems:
        raise SystemExit("\n".join(problems))


class Record:
    """Every evaluation of every run, in one CSV file."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def rows(self) -> list[dict[str, Any]]:
        """As they stand in the file."""
        if not self.path.exists():
            return []
        with open(self.path) as file:
            return list(csv.DictReader(file))

    def scores(self, task: str, method: str, steps: int, settings: dict[str, str]) -> dict[int, float]:
        """By seed: the mean of the last three evaluations up to `steps`, where it came so far."""
        curves, wanted = collections.defaultdict[int, dict[int, float]](dict), (task, method, text(settings))
        for row in self.rows():
            if (row["task"], row["method"], row["settings"]) == wanted:
                curves[int(row["seed"])][int(row["step"])] = float(row["score"])
        last = {
            seed: [curve[step] for step in sorted(curve) if step <= steps][-3:]
            for seed, curve in curves.items()
            if steps in curve
        }
        return {seed: sum(scores) / len(scores) for seed, scores in last.items()}

    def missing(
        self, task: str, methods: list[str], seeds: int, steps: int, settings: dict[str, dict[str, str]]
    ) -> list[tuple[list[int], list[str]]]:
        """Seeds that are to be run, and the methods that lack just these; `settings` by method."""
        groups = collections.defaultdict[tuple[int, ...], list[str]](list)
        for method in methods:
            known = self.scores(task, method, steps, settings[method])
            groups[tuple(seed for seed in range(seeds) if seed not in known)].append(method)
        return [(list(lacking), those) for lacking, those in groups.items() if lacking]

    def add(self, task: str, runs: list[Run], settings: dict[str, dict[str, str]]) -> None:
        """Puts runs in, in place of what was there of them."""
        self.put(
            {
                "task": task,
                "method": run.method,
                "seed": result.seed,
                "step": row["step"],
                "score": round(row["score"], 2),
                "mean_return": round(row["mean_return"], 2),
                "settings": text(settings[run.method]),
                **beside_score(result, row),
            }
            for run in runs
            for result in run.seeds
            for row in result.evaluations
        )

    def put(self, fresh: Iterable[dict[str, Any]]) -> None:
        """Puts rows in, in place of those of the same evaluations."""
        with exclusive(self.path.with_suffix(".lock"), waiting=lambda: None):
            merged = {place(row): row for row in self.rows()} | {place(row): row for row in fresh}
            write_csv(self.path, [merged[key] for key in sorted(merged)])


def beside_score(result: SeedResult, evaluation: Row) -> dict[str, str]:
    """The worst and the best episode's return, and what the run saw of its values in the steps before."""
    returns = [value for name, value in evaluation.items() if name.startswith("return_")]
    seen = next((row for row in result.history if row["step"] == evaluation["step"]), {})
    told = {"worst_return": min(returns), "best_return": max(returns)}
    told |= {name: seen[name] for name in WATCHED if name in seen}
    return {name: f"{value:.4g}" for name, value in told.items()}


def place(row: dict[str, Any]) -> tuple[str, str, str, int, int]:
    """Where a row stands in the record; two rows of one place are of the same evaluation."""
    return row["task"], row["method"], row["settings"], int(row["seed"]), int(row["step"])


def text(settings: dict[str, str]) -> str:
    """Settings as the record has them."""
    return " ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def with_published(task: str, given: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """By owner: the settings that were published for the task's dataset, and over them those that were given."""
    chosen = {owner: dict[str, str]() for owner in given}
    for row in beside_this("published_settings.csv"):
        if row["dataset"] == task_family(task) and row["method"] in chosen:
            chosen[row["method"]][row["setting"]] = row["value"]
    return {owner: chosen[owner] | given[owner] for owner in given}


def named(given: str) -> tuple[str, str]:
    """A task's name and its dataset."""
    name, separator, dataset = given.partition("=")
    return (name, dataset) if separator else (pathlib.Path(given).stem, given)


def table(
    record: Record, tasks: list[str], methods: list[str], steps: int, given: dict[str, dict[str, str]]
) -> str:
    """A row a method, a column a task, and their mean."""
    lines = ["| method | " + " | ".join([*tasks, "mean"]) + " |", "|---" + "|---:" * (len(tasks) + 1) + "|"]
    published, settings = published_scores(), {task: with_published(task, given) for task in tasks}
    for method in methods:
        scores = [record.scores(task, method, steps, settings[task][method]) for task in tasks]
        cells = [
            cell(list(found.values()), published.get((task_family(task), method)))
            for task, found in zip(tasks, scores, strict=True)
        ]
        cells.append(cell(means_over_tasks(scores), None))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def means_over_tasks(by_seed: list[dict[int, float]]) -> list[float]:
    """A mean a seed, of the seeds that every task has."""
    common = set[int].intersection(*map(set, by_seed))
    return [sum(scores[seed] for scores in by_seed) / len(by_seed) for seed in sorted(common)]


def cell(scores: list[float], published: float | None) -> str:
    """The mean, its interval, and what was published."""
    ours = "–"
    if scores:
        bounds = student_interval(scores)
        ours = f"{sum(scores) / len(scores):.1f}" + (f" [{bounds[0]:.1f}, {bounds[1]:.1f}]" if bounds else "")
    return ours if published is None else f"{ours} <sub>{published:.1f}</sub>"


def task_family(task: str) -> str:
    """The dataset that was published under the task's name: hopper-medium-expert for hopper-medium-expert-200k."""
    known = {dataset for dataset, _ in published_scores()}
    return max((name for name in known if task.startswith(name)), key=len, default=task)


def published_scores() -> dict[tuple[str, str], float]:
    """By dataset and method."""
    rows = beside_this("published_scores.csv")
    own = {(row["dataset"], row["method"]): float(row["score"]) for row in rows}
    ours = {paper: method for method, paper in PAPER_NAMES.items()}
    table_1 = {
        (dataset, ours[name]): score.mean for (dataset, name), score in paper_scores().items() if name in ours
    }
    return own | table_1


def beside_this(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file in this folder."""
    with open(pathlib.Path(__file__).with_name(name)) as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
