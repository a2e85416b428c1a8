"""`ploff evaluate`: trained policies in new episodes."""

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from ploff.commands import Unset


@dataclasses.dataclass
class Evaluate:
    """Evaluate trained policies in new episodes."""

    run_: Annotated[pathlib.Path, tyro.conf.Positional, tyro.conf.arg(name="run", metavar="RUN")]
    """Folder that `ploff train` or `ploff benchmark` made, or a policy's file."""
    episodes: int = 50
    """Episodes per policy."""
    seed: int = 0
    """Decides the episodes."""
    environment: Unset[str] = None
    """Environment to evaluate in; by default that of the training."""
    physics: Unset[Literal["d4rl", "gymnasium"]] = None
    """Physics of the environment, where it has both."""

    def run(self) -> None:
        """Evaluates, and prints one row per policy."""
        from rich.console import Console
        from rich.table import Table

        from ploff.experiments.api import evaluate_run
        from ploff.experiments.statistics import student_interval

        found = evaluate_run(
            self.run_, episodes=self.episodes, seed=self.seed, environment=self.environment, physics=self.physics
        )
        scored = any(outcome.scores is not None for outcome in found.values())
        table = Table("policy", "score" if scored else "return", "95% interval", "lowest", "highest", "steps")
        for label, outcome in found.items():
            values = outcome.returns if outcome.scores is None else outcome.scores
            bounds = student_interval(list(values))
            interval = f"{bounds[0]:.1f} to {bounds[1]:.1f}" if bounds else "–"
            numbers = (values.mean(), values.min(), values.max(), outcome.lengths.mean())
            mean, low, high, steps = (f"{number:,.1f}" for number in numbers)
            table.add_row(label, mean, interval, low, high, steps)
        Console(highlight=False).print(table)
