"""What `ploff train` prints in the end: the runs beside the data, and what to do next."""

from collections.abc import Sequence

import numpy as np
from rich.table import Table

from ploff.experiments.run_folder import POLICY, Run
from ploff.experiments.statistics import student_interval
from ploff.tasks import normalized_score

NONE = "–"


def summary_table(runs: Sequence[Run]) -> Table:
    """The mean over seeds of each run, its deviation and interval, beside the data's own mean."""
    scored = any(run.scores for run in runs)
    evaluated = scored or any(run.returns for run in runs)
    quantity = "score" if scored else "return" if evaluated else "value of Q"
    table = Table(title=f"{runs[0].config['data']['name']}: {quantity}", title_justify="left")
    for column in ("", "seeds", "mean", "sd", "95% interval of the mean"):
        table.add_column(column, justify="left" if not column else "right")
    if evaluated:
        table.add_row("the data's episodes", "", f"{_of_data(runs[0], scored):.1f}", "", "")
    for run in runs:
        values = run.scores if scored else run.returns if evaluated else _last_q(run)
        table.add_row(run.method, str(len(run.seeds)), *_cells(values))
    return table


def next_steps(runs: Sequence[Run], out: str) -> list[str]:
    """Where the policies are, and what can be done with them."""
    found = [path for run in runs for path in sorted(run.folder.glob(f"seed-*/{POLICY}"))]
    where = str(found[0]) if len(found) == 1 else f"{len(found)} policies in {out}/runs"
    drawn = f"`ploff report {out}` draws it all"
    measured = [run for run in runs if run.config["metric"] is not None]  # its distances to the data are known
    if not measured:
        return [f"policy: {where}", f"next: {drawn}"]
    place = out if len(runs) == 1 else str(measured[-1].folder)
    return [
        f"policy: {where}",
        f"next: `ploff explain {place} --row 0` shows the evidence behind an action, {drawn}",
    ]


def _cells(values: Sequence[float]) -> tuple[str, str, str]:
    if not values:
        return NONE, NONE, NONE
    bounds = student_interval(values)
    spread = f"{np.std(values, ddof=1):.1f}" if bounds else NONE
    return f"{np.mean(values):.1f}", spread, f"{bounds[0]:.1f} to {bounds[1]:.1f}" if bounds else NONE


def _of_data(run: Run, scored: bool) -> float:
    mean_return, references = run.config["data"]["mean_return"], run.config["references"]
    return float(normalized_score(mean_return, tuple(references))) if scored else mean_return


def _last_q(run: Run) -> list[float]:
    rows = [result.history[-1] for result in run.seeds if result.history]
    return [row["mean_q"] for row in rows if "mean_q" in row]
