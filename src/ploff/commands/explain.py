"""`ploff explain`: how far an action is from the data, and which logged transitions say so."""

import dataclasses
import pathlib
from typing import Annotated

import tyro


@dataclasses.dataclass
class Explain:
    """Show how near an action is to what was logged, and the transitions that it is nearest to."""

    folder: Annotated[
        pathlib.Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")
    ]  # what `ploff train` or `ploff metric` made
    row: int | None = None  # a row of the log, counted from 0
    observation: pathlib.Path | None = None  # or a file: one observation, or one with an action behind it
    dataset: str | None = None  # that the run was trained on, if the run folder does not tell
    count: int = 10  # transitions to show

    def run(self) -> None:
        """Loads the run and its log, and prints the explanation."""
        from ploff.errors import PloffError
        from ploff.neighbors import explain
        from ploff.pipeline.runs import open_explainer

        if (self.row is None) == (self.observation is None):
            raise PloffError("name either a --row of the log or a file with an --observation")
        if self.count < 1:
            raise PloffError(f"--count must be at least 1, got {self.count}")
        data = _dataset_of(self.folder, self.dataset)
        explainer = open_explainer(self.folder, data)
        if self.row is not None:
            explanation = explainer.row(self.row, self.count)
        else:
            assert self.observation is not None
            explanation = explainer.observation(
                *explain.read_observation(self.observation, data), count=self.count
            )
        _print(explanation)


def _dataset_of(folder: pathlib.Path, name: str | None):
    """The dataset that was named, or else the one that the run folder names, read as it was read then."""
    from ploff import datasets
    from ploff.errors import PloffError
    from ploff.storage import read_json

    if not folder.is_dir():
        raise PloffError(f"no run folder {folder}; `ploff train DATASET --out {folder}` makes one")
    config = read_json(folder / "config.json") if (folder / "config.json").exists() else {}
    name = name or config.get("dataset")
    if not isinstance(name, str):
        raise PloffError(
            f"{folder} does not say which dataset it was trained on; add --dataset NAME, "
            f"or make a run with `ploff train DATASET --out {folder}`"
        )
    return datasets.load(name, **config.get("reading", {}))


def _print(explanation) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"{explanation.origin} action: {_vector(explanation.action)}")
    console.print(
        f"distance to the data: {explanation.distance:.4g} ({explanation.distance / explanation.spacing:.2f} of "
        f"the log's spacing), percentile "
        f"{explanation.percentile:.1f} of the log's own distances ({explanation.sampled:,} logged pairs)"
    )
    table = Table("row", "episode", "step", "action", "reward", "distance", box=None, pad_edge=False)
    for item in explanation.evidence:
        numbers = (f"{item.row}", f"{item.episode}", f"{item.step}")
        table.add_row(*numbers, _vector(item.action), f"{item.reward:.4g}", f"{item.distance:.4g}")
    console.print(table)


def _vector(action) -> str:
    return str(action.tolist()) if action.ndim == 0 else " ".join(f"{x:.3f}" for x in action)
