"""Every method on some tasks: a resumable table of scores, with intervals, beside the published ones.

    python benchmarks/baselines.py DATASET … --out FOLDER [--methods all] [--seeds 3] [--steps 50000]
        [--set cql.gap_states=32]

A dataset is what `ploff.load` takes; NAME=DATASET calls it by another name in the table. Runs go through
`ploff.pipeline`, as many at once as there are cores, each on a core of its own; run again, finished ones are skipped
and those that were cut off go on. A run's score is the mean of its last three evaluations, of ten episodes each.

Written to FOLDER: evaluations.csv (a row an evaluation), scores.csv (a row a run), table.md. A cell is the mean over
seeds with Student's 95% interval of it. Published scores stand below in small type: those of the paper's Table 1 (v0
datasets), and of a method's own paper where it is younger (`published_scores.csv`). They are of other datasets, of
longer training, and of other physics than a log of one's own: a landmark, not a test.
"""

import argparse
import csv
import pathlib

from ploff.agents import METHODS
from ploff.benchmark.paper import paper_scores
from ploff.errors import PloffError
from ploff.pipeline import Run, compare, load_run
from ploff.pipeline.runs import interval
from ploff.pipeline.settings import assignments
from ploff.storage import replacing
from ploff.training import write_csv

PAPER_NAMES = {
    "bc": "BC", "bear": "BEAR", "brac-v": "BRAC-v", "awr": "AWR", "bcq": "BCQ", "cql": "CQL",
    "ploff": "PLOff", "ploff-l2": "PLOff-L2", "td3-off": "TD3-Off",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+", metavar="[NAME=]DATASET")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--evaluate-every", type=int, default=5_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--metric-steps", type=int)
    parser.add_argument("--set", nargs="+", default=[], metavar="METHOD.NAME=VALUE", action="extend")
    options = parser.parse_args()
    methods = list(METHODS) if options.methods == "all" else options.methods.split(",")
    tasks = dict(named(text) for text in options.datasets)
    problems = []
    for name, dataset in tasks.items():
        try:
            compare(
                dataset,
                methods,
                out=options.out / name,
                steps=options.steps,
                seeds=options.seeds,
                evaluate_every=options.evaluate_every,
                episodes=options.episodes,
                metric_steps=options.metric_steps,
                settings=assignments(options.set),
            )
        except (PloffError, RuntimeError) as error:  # the other runs, and the other tasks, are not lost by it
            problems.append(f"{name}: {error}")
        report(options.out, tasks, methods)
    print((options.out / "table.md").read_text())
    if problems:
        raise SystemExit("\n".join(problems))


def named(text: str) -> tuple[str, str]:
    """A task's name and its dataset."""
    name, separator, dataset = text.partition("=")
    return (name, dataset) if separator else (pathlib.Path(text).stem, text)


def report(out: pathlib.Path, tasks: dict[str, str], methods: list[str]) -> None:
    """Writes all that the folder's runs say so far."""
    runs = {
        (task, method): load_run(out / task / method)
        for task in tasks
        for method in methods
        if (out / task / method / "config.json").exists()
    }
    evaluations = [
        {"task": task, "method": method, "seed": result.seed, **row}
        for (task, method), run in runs.items()
        for result in run.seeds
        for row in result.evaluations
    ]
    scores = [
        {"task": task, "method": method, "seed": result.seed, "step": result.step, "score": result.score}
        for (task, method), run in runs.items()
        for result in run.seeds
        if result.score is not None
    ]
    for name, rows in (("evaluations", evaluations), ("scores", scores)):
        if rows:
            write_csv(out / f"{name}.csv", rows)
    with replacing(out / "table.md") as partial:
        partial.write_text(table(runs, list(tasks), methods))


def table(runs: dict[tuple[str, str], Run], tasks: list[str], methods: list[str]) -> str:
    """A row a method, a column a task."""
    lines = ["| method | " + " | ".join(tasks) + " |", "|---" + "|---:" * len(tasks) + "|"]
    published = published_scores()
    for method in methods:
        cells = [cell(runs.get((task, method)), published.get((task_family(task), method))) for task in tasks]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(run: Run | None, published: float | None) -> str:
    """The mean, its interval, and what was published."""
    scores = run.scores if run is not None else []
    if not scores:
        ours = "–"
    else:
        bounds = interval(scores)
        ours = f"{sum(scores) / len(scores):.1f}" + (f" [{bounds[0]:.1f}, {bounds[1]:.1f}]" if bounds else "")
    return ours if published is None else f"{ours} <sub>{published:.1f}</sub>"


def task_family(task: str) -> str:
    """The dataset that was published under the task's name: hopper-medium-expert for hopper-medium-expert-200k."""
    known = {dataset for dataset, _ in published_scores()}
    return max((name for name in known if task.startswith(name)), key=len, default=task)


def published_scores() -> dict[tuple[str, str], float]:
    """By dataset and method."""
    text = (pathlib.Path(__file__).parent / "published_scores.csv").read_text()
    own = {(row["dataset"], row["method"]): float(row["score"]) for row in csv.DictReader(text.splitlines())}
    ours = {paper: method for method, paper in PAPER_NAMES.items()}
    table_1 = {
        (dataset, ours[name]): score.mean for (dataset, name), score in paper_scores().items() if name in ours
    }
    return own | table_1


if __name__ == "__main__":
    main()
