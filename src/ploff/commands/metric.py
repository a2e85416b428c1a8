"""`ploff metric`: learn the pseudometric of a log."""

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from ploff.commands import SWITCH, Switch, Unset
from ploff.commands.reading import Reading


@dataclasses.dataclass
class Metric(Reading):
    """Learn the pseudometric of a log. Run again with the same --out, it resumes."""

    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """A file, or a name that `ploff data list` shows."""
    out: pathlib.Path
    """Folder of results; it is made if it is not there."""
    preset: Literal["default", "paper"] = "default"
    """paper: the printed losses, 2,000,000 steps."""
    steps: Unset[int] = None
    """Maximum number of steps."""
    early_stopping: Unset[bool] = None
    """Stop once neighbors and support hardly change."""
    seed: int = 0
    """Seeds every random draw."""
    set: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Settings of the metric as NAME=VALUE, such as discount=0.99 or state_weight=0."""
    relevance: Switch = "auto"
    """Whether the metric sees the directions of an observation that matter instead of its columns; auto: unless the
    preset is the paper's."""
    figures: bool = True
    """Draw the losses, the distance against noise, and states with their nearest neighbors (extra `plot`)."""

    def run(self) -> None:
        """Loads, learns, draws, and says what was reached."""
        from ploff import datasets
        from ploff.experiments.api import learn_metric_in
        from ploff.metric.pseudometric import MetricConfig
        from ploff.metric.train import load_metric
        from ploff.utils.config import read_assignments, structure_fields
        from ploff.utils.progress import say

        given = read_assignments(one for several in self.set for one in several)
        training = {"steps": self.steps, "early_stopping": self.early_stopping, "seed": self.seed}
        folder = learn_metric_in(
            self.dataset,
            self.out,
            preset=self.preset,
            config=structure_fields(MetricConfig, given, "setting of the metric"),
            training={name: value for name, value in training.items() if value is not None},
            relevance=SWITCH[self.relevance],
            reading=self.options(),
        )
        learned = load_metric(folder)
        if self.figures:
            from ploff.report.figures.metric import draw_metric_figures

            data = datasets.load(self.dataset, **self.options())
            names = datasets.column_names(data)
            for path in draw_metric_figures(learned, data, folder, names):
                say(f"wrote {path}")
        say(learned.summary())
        say(f"next: `ploff train {self.dataset} --metric {self.out} --out RUN` trains a policy with this metric")
