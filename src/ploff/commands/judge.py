"""`ploff judge`: policies by their log alone."""

import dataclasses
import json
import pathlib
import sys
from typing import Annotated, Literal

import tyro

from ploff.commands import Unset


@dataclasses.dataclass
class Judge:
    """Judge policies by their log alone: worth, interval, evidence, verdict.

    Exit codes: 0 the best one is better than the log, 3 it is not,
    4 it cannot be told.
    """

    runs: Annotated[tuple[pathlib.Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folders that `ploff train` or `ploff benchmark` made, or policies' files."""
    dataset: Unset[str] = None
    """The log, if it is not where it was."""
    estimator: Unset[Literal["fqe", "fqe-metric", "neighbors"]] = None
    """What the verdict goes by: fitted Q evaluation, the same in the run's metric, or stitched neighbors."""
    all: bool = False
    """Ask the other estimators, too."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Judges, prints, and leaves with the verdict's code."""
        from ploff.experiments.judge_run import judge_runs
        from ploff.judging import JudgeConfig
        from ploff.judging.judge import ESTIMATORS
        from ploff.utils.errors import PloffError

        if not self.runs:
            raise PloffError("name at least one folder that `ploff train` made, or a policy's file")
        config = JudgeConfig(others=ESTIMATORS if self.all else ())
        if self.estimator is not None:
            config = dataclasses.replace(config, estimator=self.estimator)
        judged = judge_runs(self.runs, dataset=self.dataset, config=config, quiet=self.json)
        if self.json:
            sys.stdout.write(json.dumps([one.judgment.to_json() for one in judged], indent=2) + "\n")
        else:
            _print([one.judgment for one in judged])
        if code := judged[0].judgment.verdict.exit_code:
            raise SystemExit(code)


def _print(judgments) -> None:
    from rich.console import Console
    from rich.table import Table

    console, best = Console(highlight=False, markup=False), judgments[0]
    table = Table("policy", "worth per episode", "90% interval", "outside", "verdict", box=None, pad_edge=False)
    table.add_row("the log", f"{best.logged.value:,.1f}", _interval(best.logged), f"{best.support.rate:.0%}", "")
    if best.cloning is not None:
        table.add_row("its imitation", f"{best.cloning.value:,.1f}", _interval(best.cloning), "", "")
    for one in judgments:
        for name, estimate in one.estimates.items():
            first = estimate is one.value
            label = one.name if first else f"  {name}"
            told = (f"{one.support.outside:.0%}", one.verdict.answer) if first else ("", "")
            table.add_row(label, f"{estimate.value:,.1f}", _interval(estimate), *told)
    console.print(table)
    console.print(f"{best.name}: {best.verdict}")
    for note in best.notes:
        console.print(f"note: {note}")
    console.print("\nwhere it goes farthest from what was tried (distances in medians of logged actions):")
    far = Table("episode", "step", "distance", "it does", "the log did", "reward", box=None, pad_edge=False)
    for state in best.support.farthest:
        numbers = (f"{state.episode}", f"{state.step}", f"{state.distance:.2f}")
        far.add_row(*numbers, _vector(state.policy_action), _vector(state.logged_action), f"{state.reward:.4g}")
    console.print(far)


def _interval(estimate) -> str:
    return f"{estimate.low:,.1f} to {estimate.high:,.1f}"


def _vector(action) -> str:
    shown = " ".join(f"{x:.2f}" for x in action[:4])
    return shown + (" …" if len(action) > 4 else "")
