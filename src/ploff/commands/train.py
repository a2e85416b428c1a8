"""`ploff train`: from a log to an evaluated policy."""

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from ploff.commands import SWITCH, Switch, Unset
from ploff.commands.reading import Reading, first_of


@dataclasses.dataclass
class Train(Reading):
    """Train a policy on a log. Run again with the same --out, it resumes."""

    dataset: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """A file, or a name that `ploff data list` shows; of tables also several, a glob or a folder."""
    out: pathlib.Path
    """Folder of results; it is made if it is not there."""
    method: str = "ploff"
    """A method that `ploff methods` lists; several, separated by commas, are trained side by side and compared."""
    preset: Literal["default", "paper", "quick"] = "default"
    """paper: settings as printed, and as long; quick: a first look in minutes."""
    steps: Unset[int] = None
    """Number of training steps."""
    seeds: int = 1
    """Number of seeds; each is a run of its own."""
    first_seed: int = 0
    """The first seed."""
    set: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Settings as NAME=VALUE: the method's (`ploff methods NAME` lists them), the metric's as metric.NAME, one of
    several methods' as METHOD.NAME."""
    environment: Unset[str] = None
    """Environment to evaluate in; by default the log's own. `none`: nowhere."""
    metric: Unset[pathlib.Path] = None
    """Folder of `ploff metric` or `ploff train` whose metric is used instead of learning one."""
    metric_steps: Unset[int] = None
    """Maximum number of steps of metric learning."""
    relevance: Switch = "auto"
    """Whether learners see the directions of an observation that matter instead of its columns; auto: as each method
    does."""
    physics: Unset[Literal["d4rl", "gymnasium"]] = None
    """Physics of the environment, where it has both; by default the log's."""
    evaluate_every: Unset[int] = None
    """Steps between evaluations."""
    episodes: Unset[int] = None
    """Episodes per evaluation."""
    hold_out: Unset[float] = None
    """Share of the log's episodes kept from training, for `ploff judge`; by default none, with --select judge 0.1."""
    select: Unset[Literal["last", "judge"]] = None
    """judge: keep policies on the way, and take the one that is judged best by the log; by default the last."""
    logger: Unset[Literal["tensorboard", "wandb"]] = None
    """Also write the numbers to TensorBoard or Weights & Biases (extras `tensorboard`, `wandb`)."""

    def run(self) -> None:
        """Trains, and prints the summary."""
        from rich.console import Console

        from ploff.experiments import compare
        from ploff.experiments.summary import next_steps, summary_table
        from ploff.utils.config import read_assignments
        from ploff.utils.progress import say

        options = {name: getattr(self, name) for name in SAME_NAMES}
        runs = compare(
            first_of(self.dataset),
            self.method.split(","),
            out=self.out,
            settings=read_assignments(one for several in self.set for one in several),
            seeds=range(self.first_seed, self.first_seed + self.seeds),
            relevance=SWITCH[self.relevance],
            reading=self.options(self.dataset[1:]),
            **options,
        )
        Console(highlight=False).print(summary_table(runs))
        for line in next_steps(runs, str(self.out)):
            say(line)


SAME_NAMES = (
    "steps", "preset", "metric", "metric_steps", "environment", "physics", "evaluate_every", "episodes",
    "hold_out", "select", "logger",
)  # fmt: skip
