"""`ploff explain`: how far an action is from the data, and which logged transitions say so."""

import dataclasses
import pathlib
from typing import Annotated

import tyro

from ploff.commands import Unset


@dataclasses.dataclass
class Explain:
    """Show the logged transitions that an action is nearest to, and how near."""

    folder: Annotated[pathlib.Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder that `ploff train` or `ploff metric` made."""
    row: Unset[int] = None
    """A row of the log, counted from 0."""
    observation: Unset[pathlib.Path] = None
    """Or a file with one observation, or with one observation and an action behind it (.npy, .json, .csv)."""
    dataset: Unset[str] = None
    """The log, if it is not where it was."""
    count: int = 10
    """Number of transitions to show."""

    def run(self) -> None:
        """Loads the run and its log, and prints the explanation."""
        from ploff.experiments.explain_run import open_explainer
        from ploff.neighbors.explain import read_observation
        from ploff.utils.errors import PloffError

        if (self.row is None) == (self.observation is None):
            raise PloffError("name either a --row of the log or a file with an --observation")
        if self.count < 1:
            raise PloffError(f"--count must be at least 1, got {self.count}")
        explainer, data, gate = open_explainer(self.folder, self.dataset)
        if self.row is not None:
            explanation = explainer.row(self.row, self.count)
        else:
            assert self.observation is not None
            explanation = explainer.observation(*read_observation(self.observation, data), count=self.count)
        _print(explanation, data.origin.schema, gate)


def _print(explanation, schema, gate) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if schema is not None:
        values = zip(schema.components, explanation.observation.ravel(), strict=True)
        console.print(f"observation: {', '.join(f'{name} {value:.4g}' for name, value in values)}", markup=False)
    called = f" ({', '.join(schema.actions)})" if schema is not None and schema.actions else ""
    console.print(f"{explanation.origin} action{called}: {_vector(explanation.action)}")
    relative = explanation.distance / explanation.median_nn_distance
    console.print(
        f"distance to the data: {explanation.distance:.4g} ({relative:.2f} of the median between logged neighbors), "
        f"percentile {explanation.percentile:.1f} of the log's own distances ({explanation.sampled:,} logged pairs)"
    )
    if explanation.alternatives:
        console.print(_alternatives_table(explanation, schema))
    if gate is not None:
        inside = "outside of" if gate.outside(explanation.distance) else "inside of"
        console.print(f"{inside} the evidence: 5% of logged actions are beyond {gate.threshold():.4g}")
    table = Table("row", "episode", "step", "action", "reward", "distance", box=None, pad_edge=False)
    for item in explanation.evidence:
        numbers = (f"{item.row}", f"{item.episode}", f"{item.step}")
        table.add_row(*numbers, _vector(item.action), f"{item.reward:.4g}", f"{item.distance:.4g}")
    console.print(table)


def _alternatives_table(explanation, schema):
    """All actions of the state, side by side."""
    from rich.table import Table

    names = schema.choices if schema is not None else ()
    table = Table("action", "", "distance", "percentile", "score", "probability", box=None, pad_edge=False)
    for one in explanation.alternatives:
        mark = "*" if one.action == int(explanation.action) else ""
        scored = ("", "") if one.score is None else (f"{one.score:.4g}", f"{one.probability:.1%}")
        called = f"{one.action} {names[one.action]}" if names else f"{one.action}"
        table.add_row(called, mark, f"{one.distance:.4g}", f"{one.percentile:.1f}", *scored)
    return table


def _vector(action) -> str:
    return str(action.tolist()) if action.ndim == 0 else " ".join(f"{x:.3f}" for x in action)
