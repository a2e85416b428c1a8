"""`ploff train`: from a log to an evaluated policy."""

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from ploff.commands.data import Reading


@dataclasses.dataclass
class Train(Reading):
    """Train a policy on a log. Run again with the same --out, it goes on where it stopped."""

    dataset: Annotated[str, tyro.conf.Positional]
    """A name that `ploff data list` shows, or a file."""
    out: pathlib.Path
    """Run folder: config.json, metric, neighbours, and a folder a seed."""
    method: str = "ploff"
    """One of `ploff.agents.METHODS`; several, parted by commas, are trained side by side and compared."""
    preset: Literal["default", "paper", "quick"] = "default"
    """paper: as printed, and as long; quick: a first look."""
    steps: int | None = None
    """Updates of the policy."""
    seeds: int = 1
    """How many."""
    first_seed: int = 0
    """The first of them."""
    set: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Settings as NAME=VALUE, several behind one --set or each behind its own: the method's, the metric's as
    metric.NAME, one of several methods' as METHOD.NAME."""
    environment: str | None = None
    """Where a policy is to be tried; by default where the log comes from. `none`: nowhere."""
    metric: pathlib.Path | None = None
    """Another run folder, to share its metric and neighbours."""
    metric_steps: int | None = None
    """Of learning the metric, at most."""
    physics: Literal["d4rl", "gymnasium"] | None = None
    """Whose physics, where an environment has both; by default the log's."""
    evaluate_every: int | None = None
    """Steps between evaluations."""
    episodes: int | None = None
    """Of an evaluation."""
    log: Literal["tensorboard", "wandb"] | None = None
    """Where the numbers go beside the CSV files (extras `tensorboard`, `wandb`)."""

    def run(self) -> None:
        """Trains, and prints the summary."""
        from rich.console import Console

        from ploff import pipeline

        methods = self.method.split(",")
        options = {name: getattr(self, name) for name in SAME_NAMES}
        options["settings"] = pipeline.assignments([one for several in self.set for one in several])
        options["seeds"] = range(self.first_seed, self.first_seed + self.seeds)
        options["reading"] = self.options()
        if len(methods) == 1:
            runs = [pipeline.train(self.dataset, methods[0], out=self.out, **options)]
        else:
            runs = pipeline.compare(self.dataset, methods, out=self.out, **options)
        Console(highlight=False).print(pipeline.summary(runs))


SAME_NAMES = (
    "steps", "preset", "metric", "metric_steps", "environment", "physics", "evaluate_every", "episodes", "log",
)  # fmt: skip
