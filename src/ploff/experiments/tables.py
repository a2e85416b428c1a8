"""Results as tables: one row per task and one column per method, the paper's beside ours; and statistics of them."""

import csv
import dataclasses
import html
import io
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ploff.datasets.catalog import family_of, paper_name
from ploff.datasets.sources import short_name, short_names
from ploff.experiments import statistics
from ploff.experiments.paper import paper_scores
from ploff.experiments.plan import Plan
from ploff.experiments.run_folder import mean_of_last
from ploff.experiments.statistics import Scores
from ploff.experiments.store import Store
from ploff.experiments.suite import Suite
from ploff.utils import files

NONE = "–"
LATEX = {"±": r"$\pm$", "–": "--", "%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#"}


@dataclasses.dataclass(frozen=True)
class Table:
    """Text in rows and columns."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As Markdown has it, numbers to the right."""
        line = "|" + "|".join(["---", *["---:"] * (len(self.header) - 1)]) + "|"
        return "\n".join([_bars(self.header), line, *map(_bars, self.rows)]) + "\n"

    def csv(self) -> str:
        """As comma-separated values."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()

    def latex(self) -> str:
        """As a tabular with booktabs' rules."""
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in (self.header, *self.rows)]
        columns = "l" + "r" * (len(self.header) - 1)
        inside = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *inside, r"\end{tabular}"]) + "\n"


@dataclasses.dataclass(frozen=True)
class Results:
    """The scores that a suite has so far."""

    scores: dict[str, dict[str, list[float]]]  # by column, by task: one per seed
    runs: tuple[tuple[str, str, int, float], ...]  # task, column, seed, score
    tasks: tuple[str, ...]
    paper: dict[str, str]  # the paper's column that stands beside a column of ours
    evaluations: tuple[dict[str, Any], ...] = ()  # one row per evaluation of every run

    @classmethod
    def of(cls, suite: Suite, plan: Plan, store: Store) -> "Results":
        """Those of a plan's runs that are done."""
        scores = {column.name: {task: list[float]() for task in suite.tasks} for column in suite.columns}
        runs, evaluations, labels = [], [], short_names(suite.tasks)
        for run in plan.runs:
            if not store.is_done(run.job.key):
                continue
            result = store.result(run.job.key)
            place = {"task": labels[run.task], "method": run.column, "seed": run.seed}
            evaluations += [{**place, **row} for row in result.get("evaluations", ())]
            score = mean_of_last(result.get("evaluations", ()), "score", suite.num_last)
            if score is not None:
                scores[run.column][run.task].append(score)
                runs.append((run.task, run.column, run.seed, score))
        paper = {column.name: column.paper for column in suite.columns if column.paper}
        return cls(scores, tuple(runs), suite.tasks, paper, tuple(evaluations))

    def of_column(self, column: str) -> Scores | None:
        """A column's scores; None if it has none yet."""
        return Scores.of(self.scores[column]) if any(self.scores[column].values()) else None

    @property
    def columns(self) -> list[str]:
        """The methods, in the suite's order."""
        return list(self.scores)


def score_table(results: Results) -> Table:
    """Mean ± deviation over seeds, with the paper's own beside it, and the mean over each family of tasks."""
    header = ["task"]
    for column in results.columns:
        header += [column, f"{results.paper[column]} (paper)"] if column in results.paper else [column]
    rows, families, labels = [], dict[str, list[str]](), short_names(results.tasks)
    for task in results.tasks:
        families.setdefault(family_of(short_name(task)), []).append(task)
    for family, tasks in families.items():
        rows += [[labels[task], *_cells(results, [task])] for task in tasks]
        if len(tasks) > 1:
            rows.append([f"mean, {family}", *_cells(results, tasks)])
    return Table("Normalized score, mean ± deviation over seeds", tuple(header), tuple(map(tuple, rows)))


def summary_table(results: Results, seed: int = 0) -> Table:
    """Interquartile mean and mean with 95% intervals, and how far runs stay below 100."""
    rows = []
    for column in results.columns:
        scores = results.of_column(column)
        if scores is not None:
            measures = (statistics.interquartile_mean, statistics.mean, statistics.optimality_gap)
            found = [_with_interval(scores, measure, seed) for measure in measures]
            rows.append((column, str(len(scores.values)), *found))
    header = ("method", "runs", "interquartile mean", "mean", "short of 100")
    return Table("Over all tasks, with 95% stratified bootstrap intervals", header, tuple(rows))


def improvement_table(results: Results, seed: int = 0) -> Table:
    """How likely a run of the row's method beats one of the column's on the same task."""
    present = {name: scores for name in results.columns if (scores := results.of_column(name)) is not None}
    rows = [
        (first, *(NONE if first == second else _improvement(x, y, seed) for second, y in present.items()))
        for first, x in present.items()
    ]
    return Table("Probability of improvement of row over column", ("method", *present), tuple(rows))


def run_table(results: Results) -> Table:
    """Every run's score: what the other tables are made of."""
    labels = short_names(results.tasks)
    rows = tuple((labels[task], column, str(seed), repr(score)) for task, column, seed, score in results.runs)
    return Table("Every run", ("task", "method", "seed", "score"), rows)


def write_tables(results: Results, folder: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Writes evaluations.csv, scores.csv (every run), and the table as Markdown, CSV and LaTeX; returns their places.

    Where no run has a score, nothing but the evaluations is written.
    """
    folder = pathlib.Path(folder)
    if results.evaluations:
        files.write_csv(folder / "evaluations.csv", results.evaluations)
    if not results.runs:
        return []
    table = score_table(results)
    more = [each for each in (summary_table(results), improvement_table(results)) if each.rows]
    pages = [f"## {each.title}\n\n{each.markdown()}" for each in (table, *more)]
    texts = {
        "scores.csv": run_table(results).csv(),
        "table.csv": table.csv(),
        "table.tex": table.latex(),
        "tables.md": "\n".join(pages),
    }
    for name, text in texts.items():
        files.write_text(folder / name, text)
    return [folder / name for name in texts]


def _cells(results: Results, tasks: Sequence[str]) -> list[str]:
    """A row's cells: of one task, or the means over several."""
    cells = []
    for column in results.columns:
        found = [results.scores[column][task] for task in tasks]
        cells.append(_mean_and_deviation(found))
        if column in results.paper:
            cells.append(_paper_cell(results.paper[column], tasks))
    return cells


def _mean_and_deviation(runs: Sequence[Sequence[float]]) -> str:
    """Of one task its runs' deviation; of several the mean of theirs, as the paper has it."""
    if not all(runs):
        return NONE
    mean = np.mean([float(np.mean(scores)) for scores in runs])
    if min(map(len, runs)) < 2:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {np.mean([float(np.std(scores, ddof=1)) for scores in runs]):.1f}"


def _paper_cell(method: str, tasks: Sequence[str]) -> str:
    found = [paper_scores().get((paper_name(short_name(task)) or task, method)) for task in tasks]
    known = [score for score in found if score is not None]
    if len(known) < len(tasks):
        return NONE
    if len(known) == 1:
        return str(known[0])
    deviations = [score.deviation for score in known if score.deviation is not None]
    mean = f"{np.mean([score.mean for score in known]):.1f}"
    return mean if not deviations else f"{mean} ± {np.mean(deviations):.1f}"


def _with_interval(scores: Scores, measure: statistics.Measure, seed: int) -> str:
    found = statistics.interval(scores, measure, seed=seed)
    return str(found) if scores.sizes.min() > 1 else f"{found.estimate:.1f}"  # one run says nothing of others


def _improvement(first: Scores, second: Scores, seed: int) -> str:
    if not set(first.names) & set(second.names):
        return NONE
    found = statistics.probability_of_improvement(first, second, seed=seed)
    if min(first.sizes.min(), second.sizes.min()) < 2:
        return f"{found.estimate:.2f}"
    return f"{found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _bars(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_as_text, cells)) + " |"


def _as_text(cell: str) -> str:
    """A cell that Markdown shows as it is: a method may be called by what a page takes for markup."""
    return " ".join(html.escape(cell, quote=False).replace("|", r"\|").split())


def _latex(cell: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in cell)
