"""What `ploff judge` has said of runs, as a part of the page."""

import html
from collections.abc import Iterator
from typing import Any

import numpy as np

from ploff.experiments.run_folder import JUDGMENT
from ploff.experiments.tables import Table
from ploff.report.charts import Line, line_chart
from ploff.report.gather import ReportData
from ploff.report.pieces import charts_or_nothing, note, table_of
from ploff.utils import files

NUM_CHARTS = 6


def judgments(story: ReportData) -> str:
    """The verdicts, and where each policy's actions are beside logged ones."""
    found = list(_found(story))
    if not found:
        return ""
    rows = [_row(task, told) for task, told in found]
    header = ("dataset", "policy", "worth", "90% interval", "the log", "outside", "verdict", "why")
    text = (
        "Worth is the mean return per episode, in the log's own reward, without any trial. Outside are actions farther "
        "from the data than 95% of logged actions are from other episodes."
    )
    charts = [_distances(task, told) for task, told in found[:NUM_CHARTS]]
    table = table_of(Table("", header, tuple(rows)), style="wrap")
    return note(text) + table + charts_or_nothing(charts) + _farthest(*found[0])


def _found(story: ReportData) -> Iterator[tuple[str, dict[str, Any]]]:
    for group in story.groups:
        for folder in dict.fromkeys(group.folders):
            for path in sorted(folder.glob(f"seed-*/{JUDGMENT}")):
                yield group.task, files.read_json(path)


def _row(task: str, told: dict[str, Any]) -> tuple[str, ...]:
    value, log = told["value"], told["log"]
    interval = f"{value['low']:,.1f} to {value['high']:,.1f}"
    outside = f"{told['support']['outside']:.0%}"
    why = "; ".join((*told["reasons"], *told["notes"]))
    name = told["policy"]
    return (task, name, f"{value['value']:,.1f}", interval, f"{log['value']:,.1f}", outside, told["verdict"], why)


def _distances(task: str, told: dict[str, Any]) -> str:
    support = told["support"]
    shares = np.asarray(support["quantiles"])
    lines = [
        Line("logged", np.asarray(support["logged"]), shares, style="n0"),
        Line(told["policy"], np.asarray(support["policy"]), shares, style="n1"),
    ]
    title = f"{task}, {told['policy']}: distance to other episodes"
    return line_chart(title, lines, x_label="distance, in medians of the log", y_label="share of actions", zero=True)


def _farthest(task: str, told: dict[str, Any]) -> str:
    """The states where the first policy goes farthest."""
    rows = [
        (
            str(state["episode"]),
            str(state["step"]),
            f"{state['distance']:.2f}",
            _short(state["policy_action"]),
            _short(state["logged_action"]),
            f"{state['reward']:.4g}",
        )
        for state in told["support"]["farthest"]
    ]
    header = ("episode", "step", "distance", "the policy does", "the log did", "reward")
    title = f"<h3>{html.escape(task)}, {html.escape(told['policy'])}: farthest from what was tried</h3>"
    return title + table_of(Table("", header, tuple(rows)))


def _short(action: list[float]) -> str:
    return " ".join(f"{x:.2f}" for x in action[:4]) + (" …" if len(action) > 4 else "")
