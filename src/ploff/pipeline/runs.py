"""The run folder: what was trained and how, the seeds' results, and their summary.

    RUN/config.json            dataset, method, all settings, versions, physics
    RUN/metric/, RUN/neighbours.table     unless they are those of another folder, which config.json names
    RUN/seed-0/…               see `ploff.pipeline.agent`
    RUN/scores.csv             a row a seed

A seed's score is the mean over its last three evaluations.
"""

import dataclasses
import importlib.metadata
import math
import os
import pathlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from scipy.special import stdtrit

from ploff import datasets, environments, storage
from ploff.errors import PloffError
from ploff.neighbors.explain import Explainer
from ploff.pipeline import stages
from ploff.pipeline.agent import CHECKPOINT
from ploff.pipeline.policy import FILE, Policy, load_policy, seed_of
from ploff.training import Row, write_csv
from ploff.transitions import Transitions

CONFIG = "config.json"
LAST = 3  # evaluations that a score is the mean of
PACKAGES = (
    "ploff",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "numpy",
    "gymnasium",
    "gymnasium-robotics",
    "mujoco",
)


@dataclasses.dataclass(frozen=True)
class SeedResult:
    """What one seed has reached."""

    seed: int
    step: int
    history: list[Row]
    evaluations: list[Row]

    @property
    def score(self) -> float | None:
        """The mean normalised score of the last three evaluations; None where there are none."""
        return self._last("score")

    @property
    def mean_return(self) -> float | None:
        """The mean return of the last three evaluations; None where there are none."""
        return self._last("mean_return")

    def _last(self, name: str) -> float | None:
        values = [row[name] for row in self.evaluations[-LAST:] if name in row]
        return float(np.mean(values)) if values else None


@dataclasses.dataclass(frozen=True)
class Run:
    """A method that was trained on a dataset, with one or more seeds."""

    folder: pathlib.Path
    config: dict[str, Any]
    seeds: list[SeedResult]

    @property
    def method(self) -> str:
        """Its name."""
        return self.config["method"]

    @property
    def scores(self) -> list[float]:
        """Each seed's score, as far as there are any."""
        return [result.score for result in self.seeds if result.score is not None]

    @property
    def returns(self) -> list[float]:
        """Each seed's mean return, as far as there are any."""
        return [result.mean_return for result in self.seeds if result.mean_return is not None]

    def policy(self, seed: int | None = None) -> Policy:
        """The policy of a seed, the first by default."""
        return load_policy(self.folder, seed)


def load_run(folder: str | os.PathLike[str]) -> Run:
    """A run as it stands in its folder."""
    folder = pathlib.Path(folder)
    config = read_config(folder)
    if config is None:
        raise PloffError(
            f"{folder} is not the folder of a run; `ploff train DATASET --out {folder}` makes one"
        )
    found = sorted(folder.glob(f"seed-*/{CHECKPOINT}"), key=lambda path: seed_of(path.parent))
    results = []
    for checkpoint in found:
        header = storage.load_header(checkpoint)
        results.append(
            SeedResult(seed_of(checkpoint.parent), header["step"], header["history"], header["checks"])
        )
    return Run(folder, config, results)


def read_config(folder: pathlib.Path) -> dict[str, Any] | None:
    """The configuration of a run; None where no policy was trained yet."""
    path = folder / CONFIG
    content = storage.read_json(path) if path.exists() else {}
    if not isinstance(content, dict):
        raise PloffError(f"{path} is damaged; delete it to start anew")
    return content if "method" in content else None


def refuse_run(folder: pathlib.Path) -> None:
    """Refuses the folder of a policy's run to whoever would change what its metric is."""
    if read_config(folder) is not None:
        raise PloffError(
            f"{folder} is the folder of a run, whose policies rest on its metric as it is; choose another --out"
        )


def write_origin(folder: pathlib.Path, dataset: str, reading: Mapping[str, Any]) -> None:
    """Notes which dataset a folder's metric was learned from, and how it was read, where no policy's run does so."""
    if read_config(folder) is None:
        storage.write_json(folder / CONFIG, {"dataset": findable(dataset), "reading": given(reading)})


def findable(dataset: str | os.PathLike[str]) -> str:
    """A dataset's name; a file's in full, so that it is found from anywhere."""
    path = pathlib.Path(dataset)
    return str(path.resolve()) if datasets.is_place(path) else str(dataset)


def given(reading: Mapping[str, Any] | None) -> dict[str, Any]:
    """Those keywords of `ploff.load` that say something."""
    return {name: value for name, value in (reading or {}).items() if value is not None and value != {}}


def note_metric(folder: pathlib.Path, settings: dict[str, Any]) -> None:
    """Adds what a run's metric is; other processes may have added seeds to its config.json by now."""
    config = read_config(folder)
    assert config is not None
    config["metric"]["settings"] = settings
    storage.write_json(folder / CONFIG, config)


def metric_folder(folder: pathlib.Path) -> pathlib.Path:
    """Where the metric and the neighbours of a run are."""
    config = read_config(folder)
    return folder if config is None else folder / config["metric"]["folder"]


def open_explainer(folder: pathlib.Path, data: Transitions) -> Explainer:
    """Explains actions of a run's policy, or logged ones where there is none; `data` is what the run learned from."""
    config, policy = read_config(folder), None
    if any(folder.glob(f"seed-*/{FILE}")):
        learned = load_policy(folder)
        policy = lambda observations: np.asarray(learned(observations))  # noqa: E731
    measured = "l2" if config is not None and config["metric"]["evidence"] == "l2" else "learned"
    seen, logged = stages.data_distance(measured, metric_folder(folder), data)
    return Explainer(seen, logged, policy)


def versions() -> dict[str, str]:
    """Of everything that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write_scores(run: Run) -> None:
    """Writes scores.csv: a row a seed."""
    rows = [
        {"seed": result.seed, "step": result.step}
        | ({} if result.mean_return is None else {"mean_return": result.mean_return})
        | ({} if result.score is None else {"score": result.score})
        for result in run.seeds
    ]
    if rows:
        write_csv(run.folder / "scores.csv", rows)


def student_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Student's interval for the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    half = stdtrit(len(values) - 1, 0.5 + level / 2) * np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.mean(values) - half), float(np.mean(values) + half)


def summary(runs: Sequence[Run]) -> Table:
    """A table over the runs: the mean over seeds, its deviation and interval, beside the data's own mean."""
    scored = any(run.scores for run in runs)
    tried = scored or any(run.returns for run in runs)
    quantity = "score" if scored else "return" if tried else "value of Q"
    table = Table(title=f"{runs[0].config['data']['name']}: {quantity}", title_justify="left")
    for column in ("", "seeds", "mean", "sd", "95% interval of the mean"):
        table.add_column(column, justify="left" if not column else "right")
    if tried:
        table.add_row("the data's episodes", "", f"{_of_data(runs[0], scored):.1f}", "", "")
    for run in runs:
        values = run.scores if scored else run.returns if tried else _last_values(run)
        table.add_row(run.method, str(len(run.seeds)), *_cells(values))
    return table


def _cells(values: Sequence[float]) -> tuple[str, str, str]:
    if not values:
        return "–", "–", "–"
    bounds = student_interval(values)
    spread = f"{np.std(values, ddof=1):.1f}" if bounds else "–"
    return f"{np.mean(values):.1f}", spread, f"{bounds[0]:.1f} to {bounds[1]:.1f}" if bounds else "–"


def _of_data(run: Run, scored: bool) -> float:
    returns, references = run.config["data"]["mean_return"], run.config["references"]
    return float(environments.normalised_score(returns, tuple(references))) if scored else returns


def _last_values(run: Run) -> list[float]:
    rows = [result.history[-1] for result in run.seeds if result.history]
    return [row["mean_q"] for row in rows if "mean_q" in row]
