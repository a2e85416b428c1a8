"""`ploff metric`: learn the pseudometric of a log."""

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from ploff.commands.data import Reading


@dataclasses.dataclass
class Metric(Reading):
    """Learn the pseudometric of a log. Run again with the same --out, it goes on where it stopped."""

    dataset: Annotated[str, tyro.conf.Positional]  # a name that `ploff data list` shows, or a file
    out: pathlib.Path  # run folder: checkpoint, history.csv, checks.csv, pictures
    preset: Literal["default", "paper"] = "default"  # paper: the printed losses, 2,000,000 steps
    steps: int | None = None  # stop there at the latest
    settle: bool | None = None  # stop once neighbours and support hardly change
    seed: int = 0
    discount: float | None = None  # γ of the metric
    next_actions: Literal["log", "uniform"] | None = None  # where next actions come from
    action_weight: float | None = None  # w, of the distance between actions
    state_weight: float | None = None  # v, of the distance between states
    learning_rate: float | None = None
    estimator: Literal["shared", "literal"] | None = None  # how pairs and next actions are drawn
    standardise: bool | None = None  # observations with mean 0 and deviation 1
    figures: bool = True  # draw the losses, and the distance against noise (needs the extra `plot`)

    def run(self) -> None:
        """Loads, learns, draws, and says what was reached."""
        from ploff import datasets
        from ploff.metric_training import MetricTraining, learn_metric
        from ploff.pipeline import runs, stages
        from ploff.progress import console
        from ploff.pseudometric import MetricConfig

        runs.refuse_run(self.out)
        data = datasets.load(self.dataset, **self.options())
        config = _make(MetricConfig, self.preset, self, exclude=("seed",))
        training = _make(MetricTraining, self.preset, self)
        with stages.one_at_a_time(self.out):
            learned = learn_metric(data, config, training, out=self.out)
            runs.write_origin(self.out, self.dataset, self.options())
        if self.figures:
            from ploff.figures.metric import draw_metric_figures

            for path in draw_metric_figures(learned, data, self.out / "metric"):
                console.print(f"wrote {path}", highlight=False)
        console.print(learned.summary(), highlight=False)


def _make(kind, preset: str, command: Metric, exclude: tuple[str, ...] = ()):
    """A configuration of the preset, with the settings that were given on the command line."""
    names = {field.name for field in dataclasses.fields(kind)} - set(exclude)
    given = {name: value for name, value in vars(command).items() if name in names and value is not None}
    return kind.paper(**given) if preset == "paper" else kind(**given)
