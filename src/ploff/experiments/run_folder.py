"""What `ploff train` and `ploff benchmark` leave: folders, and how runs and policies are found in them.

    OUT/suite.json                    what was asked for
    OUT/results.jsonl                 one line per finished job
    OUT/data/TASK.json                what the data is, and where its policies are evaluated
    OUT/relevance/TASK-KEY.json       what each column is worth, and the coordinates that matter
    OUT/metrics/TASK-KEY/             metric.eqx, history.csv, checks.csv, neighbors.table
    OUT/runs/TASK/METHOD-KEY/         config.json: dataset, method, all settings, versions
    OUT/runs/TASK/METHOD-KEY/seed-0/  policy.eqx, checkpoint.eqx, history.csv, evaluations.csv, evaluation.json
    OUT/runs/TASK/METHOD-KEY/seed-0/  policies/STEP.eqx, selection.json; judgment.json, gate.json: if judged
    OUT/scores.csv, evaluations.csv, table.csv, table.tex, tables.md

A run's score is the mean over its last evaluations: three, or as many as the suite says.
"""

import dataclasses
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ploff.agents.policy import Policy, read_policy
from ploff.datasets.sources import short_name
from ploff.experiments.config import LAST_EVALUATIONS
from ploff.experiments.plan import make_plan
from ploff.experiments.suite import Suite, parse_suite, suite_to_plain
from ploff.metric.train import CHECKPOINT as METRIC_CHECKPOINT
from ploff.training.checkpoint import load_header
from ploff.training.loop import Row
from ploff.utils import files
from ploff.utils.errors import DamagedFileError, PloffError

FORMAT = "ploff runs 3"
SUITE, CONFIG, CHECKPOINT, POLICY = "suite.json", "config.json", "checkpoint.eqx", "policy.eqx"
SELECTION, JUDGMENT, GATE, TRIALS = "selection.json", "judgment.json", "gate.json", "trials.csv"
PACKAGES = ("ploff", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "gymnasium-robotics", "mujoco")


@dataclasses.dataclass(frozen=True)
class SeedResult:
    """What one seed has reached."""

    seed: int
    step: int
    history: list[Row]
    evaluations: list[Row]
    num_last: int = LAST_EVALUATIONS["default"]  # evaluations that the score is the mean of
    selected: int | None = None  # the step of the policy that was judged best, where one was chosen so

    @property
    def score(self) -> float | None:
        """The mean normalized score of the last evaluations; None where there are none."""
        return mean_of_last(self.counted, "score", self.num_last)

    @property
    def mean_return(self) -> float | None:
        """The mean return of the last evaluations; None where there are none."""
        return mean_of_last(self.counted, "mean_return", self.num_last)

    @property
    def counted(self) -> list[Row]:
        """All evaluations, or that of the policy that was judged best."""
        return [row for row in self.evaluations if self.selected in (None, row["step"])]


def mean_of_last(evaluations: Sequence[Row], name: str, count: int) -> float | None:
    """The mean of a quantity over the last evaluations; None where there are none that have it."""
    values = [row[name] for row in evaluations[-count:] if name in row]
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


# Places.


def data_note(out: pathlib.Path, task: str) -> pathlib.Path:
    """Where a task's data is noted, to be known again."""
    return out / "data" / f"{_file_name(task)}.json"


def metric_folder(out: pathlib.Path, task: str, metric: str) -> pathlib.Path:
    """Where a metric and its neighbors are.

    Args:
      out: the folder of results.
      task: the dataset.
      metric: the metric job's key, "l2" (behind it the relevance job's key, where there is one), or another folder.
    """
    if metric.startswith("metric-") or is_l2(metric):
        return out / "metrics" / f"{_file_name(task)}-{metric.removeprefix('metric-')}"
    return pathlib.Path(metric)


def is_l2(metric: str) -> bool:
    """Whether a metric's name is one of plain L2."""
    return metric == "l2" or metric.startswith("l2-relevance-")


def relevance_file(out: pathlib.Path, task: str, relevance: str) -> pathlib.Path:
    """Where a relevance is; `relevance` is its job's key."""
    return out / "relevance" / f"{_file_name(task)}-{relevance.removeprefix('relevance-')}.json"


def run_folder(out: pathlib.Path, arguments: Mapping[str, Any]) -> pathlib.Path:
    """Where a run is. A run of more steps and otherwise alike is the same one, resumed."""
    identity = {name: value for name, value in arguments.items() if name not in ("task", "seed", "training", "logger")}
    identity["training"] = {name: value for name, value in arguments["training"].items() if name != "steps"}
    key = files.digest(identity, size=4)
    return out / "runs" / _file_name(arguments["task"]) / f"{arguments['method']}-{key}"


def _file_name(task: str) -> str:
    """A task's name as a folder's; a file's by its name, and a digest of its place: others may be called the same."""
    readable = re.sub(r"[^\w.+-]+", "-", short_name(task))
    if short_name(task) == task:
        return readable
    return f"{readable}-{hashlib.blake2b(task.encode(), digest_size=3).hexdigest()}"


# The suite of a folder.


def write_suite(out: pathlib.Path, suite: Suite) -> None:
    """Notes what a folder's results are of."""
    files.write_record(out / SUITE, {"format": FORMAT, **suite_to_plain(suite)})


def load_suite(out: pathlib.Path) -> Suite:
    """The suite that a folder holds results of."""
    try:
        content = files.read_record(out / SUITE)
    except DamagedFileError:
        found = files.read_json(out / SUITE)
        if not isinstance(found, dict) or (files.DIGEST not in found and found.get("format") != FORMAT):
            raise _other_version(out) from None
        raise
    if content.pop("format", None) != FORMAT:
        raise _other_version(out)
    return parse_suite(content)


def _other_version(out: pathlib.Path) -> PloffError:
    return PloffError(f"{out} was made by another version of ploff; choose another --out, or delete it")


def refuse_other_version(out: pathlib.Path) -> None:
    """Refuses a folder that another version of ploff, or something else, has filled."""
    if (out / SUITE).exists():
        load_suite(out)
    elif (out / CONFIG).exists() or any(out.glob("*/config.json")) or (out / "metric").exists():
        raise _other_version(out)


# Finding runs, policies and metrics.


def find_run_folders(path: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Run folders at a path: itself, those that its suite plans, or all below it."""
    path = pathlib.Path(path)
    if not path.is_dir():
        raise PloffError(f"no run folder {path}; `ploff train DATASET --out {path}` makes one")
    if (path / CONFIG).exists():
        return [path]
    if (path / SUITE).exists():
        planned = [run_folder(path, run.job.arguments) for run in make_plan(load_suite(path)).runs]
        return [folder for folder in dict.fromkeys(planned) if (folder / CONFIG).exists()]
    return sorted(config.parent for config in path.rglob(CONFIG) if any(config.parent.glob("seed-*")))


def load_run(path: str | os.PathLike[str]) -> Run:
    """The run in a folder: what `ploff train` made, or one run of a suite."""
    found = find_run_folders(path)
    if not found:
        raise PloffError(f"no run in {path}; `ploff train DATASET --out {path}` makes one")
    if len(found) > 1:
        raise PloffError(f"{path} holds {len(found)} runs; name one of {', '.join(map(str, found))}")
    return read_run(found[0])


def read_run(folder: pathlib.Path) -> Run:
    """A run as it stands in its own folder."""
    num_last = _num_last(folder)
    checkpoints = sorted(folder.glob(f"seed-*/{CHECKPOINT}"), key=lambda path: seed_of(path.parent))
    results = []
    for checkpoint in checkpoints:
        header = load_header(checkpoint)
        told = header["step"], header["history"], header["evaluations"]
        folder_of_seed = checkpoint.parent
        chosen = selected_step(folder_of_seed)
        results.append(SeedResult(seed_of(folder_of_seed), *told, num_last, chosen))
    return Run(folder, read_config(folder), results)


def selected_step(folder: pathlib.Path) -> int | None:
    """The step of a seed's policy, where it was chosen by judging."""
    path = folder / SELECTION
    return int(files.read_json(path)["step"]) if path.exists() else None


def _num_last(folder: pathlib.Path) -> int:
    """What the suite says that a run in this folder belongs to."""
    suite = folder.resolve().parents[2] / SUITE
    content = (files.read_record(suite) if suite.exists() else None) or {}
    return content.get("last_evaluations") or LAST_EVALUATIONS[content.get("preset", "default")]


def read_config(folder: pathlib.Path) -> dict[str, Any]:
    """The configuration of a run."""
    return files.read_record(folder / CONFIG)


def load_policy(run: str | os.PathLike[str], seed: int | None = None) -> Policy:
    """Reads a policy.

    Args:
      run: what `ploff train` made, a run's folder, a seed's folder, or a policy's file.
      seed: which seed's; the first by default.
    """
    return read_policy(find_policy(pathlib.Path(run), seed))


def find_policy(run: pathlib.Path, seed: int | None = None) -> pathlib.Path:
    """The file that `load_policy` reads."""
    if run.is_file():
        return run
    if (run / POLICY).exists() and seed is None:
        return run / POLICY
    folders = find_run_folders(run)
    with_policy = [folder for folder in folders if any(folder.glob(f"seed-*/{POLICY}"))]
    if not with_policy:
        raise PloffError(f"no policy in {run}; was it trained to its end?")
    if len(with_policy) > 1:
        raise PloffError(f"{run} holds several policies; name one of {', '.join(map(str, with_policy))}")
    found = sorted(with_policy[0].glob(f"seed-*/{POLICY}"), key=lambda path: seed_of(path.parent))
    if seed is None:
        return found[0]
    wanted = with_policy[0] / f"seed-{seed}" / POLICY
    if wanted not in found:
        seeds = ", ".join(str(seed_of(path.parent)) for path in found)
        raise PloffError(f"{run} has no seed {seed}; it has {seeds}")
    return wanted


def seed_of(folder: pathlib.Path) -> int:
    """The seed that a folder is named after."""
    number = folder.name.removeprefix("seed-")
    return int(number) if number.isdigit() else -1


def find_metric(path: pathlib.Path, dataset: str | None = None) -> pathlib.Path:
    """The folder of the metric at a path: its own, or the one that lies below it.

    Args:
      path: a metric's folder, or what `ploff metric` or `ploff train` made.
      dataset: the fingerprint of the log that it must have been learned from.
    """
    places = (path / METRIC_CHECKPOINT, *sorted(path.glob(f"metrics/*/{METRIC_CHECKPOINT}")))
    found = [file.parent for file in places if file.exists()]
    if not found:
        raise PloffError(f"no learned metric in {path}; `ploff metric DATASET --out {path}` makes one")
    fitting = [f for f in found if dataset in (None, load_header(f / METRIC_CHECKPOINT)["dataset"])]
    if not fitting:
        raise PloffError(f"the metric in {path} was learned from another dataset; name that one, or another folder")
    if len(fitting) > 1:
        raise PloffError(f"{path} holds {len(fitting)} metrics; name one of {', '.join(map(str, fitting))}")
    return fitting[0]


def versions() -> dict[str, str]:
    """The versions of everything that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
