"""`ploff select`: the best of several policies, by the log and by few trials."""

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from ploff.commands import Unset


@dataclasses.dataclass
class Select:
    """Choose the best of several policies, by the log or with a few trials."""

    runs: Annotated[tuple[pathlib.Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folders that `ploff train` or `ploff benchmark` made, or policies' files."""
    trials: int = 0
    """Episodes that may be tried, over all policies; each goes to the policy that may be the best."""
    out: Unset[pathlib.Path] = None
    """Folder to copy the chosen policy to, with its judgment and its trials."""
    dataset: Unset[str] = None
    """The log, if it is not where it was."""
    environment: Unset[str] = None
    """Environment of the trials; by default that of the training."""
    physics: Unset[Literal["d4rl", "gymnasium"]] = None
    """Physics of the environment, where it has both."""
    seed: int = 0
    """Decides the episodes."""

    def run(self) -> None:
        """Judges, spends the trials, and prints the choice."""
        from rich.console import Console
        from rich.table import Table

        from ploff.experiments.select_run import select_among
        from ploff.utils.progress import say

        choice = select_among(
            self.runs, trials=self.trials, out=self.out, dataset=self.dataset, environment=self.environment,
            physics=self.physics, seed=self.seed,
        )  # fmt: skip
        table = Table("policy", "judged", "90% interval", "outside", "trials", "tried", "believed", box=None)
        for row in choice.rows():
            table.add_row(*row)
        Console(highlight=False, markup=False).print(table)
        say(f"chosen: {choice.chosen.policy}")
