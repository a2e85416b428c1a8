"""The record of scores behind the documentation's tables: what suites add to it, and the tables of it.

    python benchmarks/scores.py SUITE.toml               prints the suite's table from the record
    python benchmarks/scores.py SUITE.toml --add OUT     adds what `ploff benchmark SUITE.toml --out OUT` evaluated

The record (benchmarks/results/baselines.csv) has one row per evaluation of every run ever, with the settings that are
not the method's defaults; only runs with the suite's settings count. A run's score is the mean of its last three
evaluations up to `--steps`, the suite's own by default: no method here depends on how long it is going to be.

A cell is the mean over seeds with Student's 95% interval of it; the last column is the mean over tasks, of the seeds
that were run on all of them. Published scores stand beside it in small type: those of the paper's Table 1 (v0
datasets), and of a method's own paper or of CORL where it is younger (`published_scores.csv`). They are of other
datasets, of longer training, and of other physics than a log of one's own: a landmark, not a test.
"""

import argparse
import collections
import pathlib
from collections.abc import Iterable
from typing import Any

from ploff.agents import get_method
from ploff.datasets.sources import short_name
from ploff.experiments.paper import paper_scores
from ploff.experiments.run_folder import read_run
from ploff.experiments.run_suite import load_results
from ploff.experiments.statistics import student_interval
from ploff.experiments.suite import Column, Suite, read_suite
from ploff.utils.config import to_plain
from ploff.utils.files import locked, read_csv, write_csv

HERE = pathlib.Path(__file__).parent
PAPER_NAMES = {
    "bc": "BC", "bear": "BEAR", "brac-v": "BRAC-v", "awr": "AWR", "bcq": "BCQ", "cql": "CQL",
    "ploff": "PLOff", "ploff-l2": "PLOff-L2", "td3-off": "TD3-Off",
}  # fmt: skip
WATCHED = ("mean_q", "max_q", "q_bound", "mmd")  # of a run's history, where its method tells it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=pathlib.Path)
    parser.add_argument("--add", type=pathlib.Path, metavar="OUT")
    parser.add_argument("--record", type=pathlib.Path, default=HERE / "results" / "baselines.csv")
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    suite, record = read_suite(options.suite), Record(options.record)
    if options.add is not None:
        record.add(options.add)
    print(table(record, suite, options.steps or suite.steps or 0))


class Record:
    """Every evaluation of every run, in one CSV file."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def scores(self, task: str, method: str, settings: str, steps: int) -> dict[int, float]:
        """By seed: the mean of the last three evaluations up to `steps`, where it came so far."""
        curves, wanted = collections.defaultdict[int, dict[int, float]](dict), (task, method, settings)
        for row in read_csv(self.path):
            if (row["task"], row["method"], row["settings"]) == wanted:
                curves[int(row["seed"])][int(row["step"])] = float(row["score"])
        last = {
            seed: [curve[step] for step in sorted(curve) if step <= steps][-3:]
            for seed, curve in curves.items()
            if steps in curve
        }
        return {seed: sum(scores) / len(scores) for seed, scores in last.items()}

    def add(self, out: pathlib.Path) -> None:
        """Puts a suite's runs in, in place of what was there of them."""
        suite, plan, store = load_results(out)
        for run in plan.runs:
            if store.is_done(run.job.key):
                column, result = suite.column(run.column), store.result(run.job.key)
                trained = read_run(out / result["folder"])
                history = next(seed.history for seed in trained.seeds if seed.seed == run.seed)
                place = {"task": short_name(run.task), "method": column.method, "seed": run.seed}
                settings = settings_text(suite, column, run.task)
                self.put(
                    {**place, **rounded(row), "settings": settings, **watched(history, row["step"])}
                    for row in result["evaluations"]
                )

    def put(self, fresh: Iterable[dict[str, Any]]) -> None:
        """Puts rows in, in place of those of the same evaluations."""
        with locked(self.path.with_suffix(".lock"), when_taken=lambda: None):  # several may share a record
            merged = {place(row): row for row in read_csv(self.path)} | {place(row): row for row in fresh}
            write_csv(self.path, [merged[key] for key in sorted(merged)])


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """An evaluation as the record has it."""
    numbers = {name: round(row[name], 2) for name in ("score", "mean_return")}
    extremes = {name: f"{row[name]:.4g}" for name in ("min_return", "max_return") if name in row}
    return {"step": row["step"], **numbers, **extremes}


def watched(history: list[dict[str, float]], step: int) -> dict[str, str]:
    """What the run saw of its values in the steps before an evaluation."""
    seen = next((row for row in history if row["step"] == step), {})
    return {name: f"{seen[name]:.4g}" for name in WATCHED if name in seen}


def place(row: dict[str, Any]) -> tuple[str, str, str, int, int]:
    """Where a row stands in the record; two rows of one place are of the same evaluation."""
    return row["task"], row["method"], row["settings"], int(row["seed"]), int(row["step"])


def settings_text(suite: Suite, column: Column, task: str) -> str:
    """The settings of a column on a task that are not the method's defaults, as the record has them."""
    method = get_method(column.method)
    default, own = to_plain(method.config()), to_plain(suite.config_of(column, task))
    default["relevance"], own["relevance"] = method.relevance, suite.uses_relevance(column)
    if column.metric_steps is not None:
        own["metric_steps"] = column.metric_steps
    return " ".join(f"{name}={_text(own[name])}" for name in sorted(own) if own[name] != default.get(name))


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def table(record: Record, suite: Suite, steps: int) -> str:
    """One row per method, one column per task, and their mean."""
    header = "| method | " + " | ".join([*suite.tasks, "mean"]) + " |"
    lines, published = [header, "|---" + "|---:" * (len(suite.tasks) + 1) + "|"], published_scores()
    for column in suite.columns:
        scores = [
            record.scores(short_name(task), column.method, settings_text(suite, column, task), steps)
            for task in suite.tasks
        ]
        cells = [
            cell(list(found.values()), published.get((task, column.method)))
            for task, found in zip(suite.tasks, scores, strict=True)
        ]
        cells.append(cell(means_over_tasks(scores), None))
        lines.append(f"| {column.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def means_over_tasks(by_seed: list[dict[int, float]]) -> list[float]:
    """One mean per seed, of the seeds that every task has."""
    common = set[int].intersection(*map(set, by_seed))
    return [sum(scores[seed] for scores in by_seed) / len(by_seed) for seed in sorted(common)]


def cell(scores: list[float], published: float | None) -> str:
    """The mean, its interval, and what was published."""
    ours = "–"
    if scores:
        bounds = student_interval(scores)
        ours = f"{sum(scores) / len(scores):.1f}" + (f" [{bounds[0]:.1f}, {bounds[1]:.1f}]" if bounds else "")
    return ours if published is None else f"{ours} <sub>{published:.1f}</sub>"


def published_scores() -> dict[tuple[str, str], float]:
    """By dataset and method."""
    rows = read_csv(HERE / "published_scores.csv")
    own = {(row["dataset"], row["method"]): float(row["score"]) for row in rows}
    ours = {paper: method for method, paper in PAPER_NAMES.items()}
    table_1 = {(dataset, ours[name]): score.mean for (dataset, name), score in paper_scores().items() if name in ours}
    return own | table_1


if __name__ == "__main__":
    main()
