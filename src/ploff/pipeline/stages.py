"""What comes before the agent: the metric, the neighbours, and the log that an agent learns from.

Each is made once and found again: the metric by its dataset, the table of neighbours by dataset and metric. Where
several processes share a folder, the first makes what is missing and the others wait for it.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ploff import neighbors, storage
from ploff.agents import EvidenceKind
from ploff.agents.log import Evidence, Log
from ploff.errors import PloffError
from ploff.metric_training import (
    CHECKPOINT,
    LearnedMetric,
    config_from_json,
    has_settled,
    learn_metric,
    load_metric,
)
from ploff.neighbors import DataDistance, Euclidean, Source
from ploff.pipeline.settings import MetricPlan
from ploff.progress import console
from ploff.quality import Embedding
from ploff.transitions import RewardScale, Transitions

TABLE = "neighbours.table"
L2_TABLE = "neighbours-l2.table"


def prepare(
    kind: EvidenceKind, folder: pathlib.Path, data: Transitions, plan: MetricPlan, *, quiet: bool
) -> None:
    """Makes what is missing of the metric and the neighbours in `folder`, for methods that need them.

    Args:
      kind: what the method measures distances by.
      folder: where they are, or will be.
      data: the log, as it was loaded.
      plan: the metric to learn if there is none.
      quiet: show no progress.
    """
    if kind == "none":
        return
    with one_at_a_time(folder):
        if kind == "learned":
            _metric(folder, data, plan, quiet)
        metric, seen, source, path = parts(kind, folder, data)
        if path.exists() and not _made_from(path, source):
            path.unlink()  # its own metric or dataset has changed: nothing else can need it
        neighbors.find_neighbours(path, metric, seen, source, quiet=quiet)


def build_log(
    kind: EvidenceKind, folder: pathlib.Path, data: Transitions, rewards: RewardScale = "unit"
) -> tuple[Log, str]:
    """The log that an agent learns from, and the fingerprint of the metric behind it, from what `prepare` made."""
    device = data.with_rewards(rewards).with_standard_observations().to_device()
    if kind == "none":
        return Log.of(device), "none"
    metric, seen, source, path = parts(kind, folder, data)
    table = neighbors.load_table(path, source)
    shared = dataclasses.replace(device, observation_units=seen.to_device().observation_units)
    logged = DataDistance.init(metric, shared, np.asarray(table.rows))
    return Log.of(device, Evidence.of(logged)), source.metric


def data_distance(
    kind: EvidenceKind, folder: pathlib.Path, data: Transitions
) -> tuple[Transitions, DataDistance]:
    """Distances to the data as an agent saw them, with the log in the metric's units."""
    metric, seen, source, path = parts(kind, folder, data)
    table = neighbors.find_neighbours(path, metric, seen, source)
    return seen, DataDistance.init(metric, seen, np.asarray(table.rows))


def _metric(folder: pathlib.Path, data: Transitions, plan: MetricPlan, quiet: bool) -> None:
    """Reuses a finished metric, goes on with one that was cut off, or learns one."""
    checkpoint = folder / CHECKPOINT
    config, training = plan.config, plan.training
    if checkpoint.exists():
        header = storage.load_header(checkpoint)
        _refuse_other_dataset(folder, header, data)
        found = config_from_json(header["config"])
        for name in plan.asked:
            if getattr(found, name) != getattr(config, name):
                was, wanted = getattr(found, name), getattr(config, name)
                raise PloffError(
                    f"the metric in {folder} was learned with {name}={was}, not {wanted}; choose another --out"
                )
        if header.get("finished", True):
            _refuse_other_length(folder, header, plan)
            if not quiet:
                console.print(f"metric: that of {folder}, {header['step']:,} steps", highlight=False)
            return
        if plan.steps is not None and header["step"] > plan.steps:
            _refuse_length(folder, header, plan.steps)
        config = found
        training = dataclasses.replace(training, seed=header["seed"], held_out=header["held_out"])
    learn_metric(data, config, training, out=folder, quiet=quiet)


def _refuse_other_length(folder: pathlib.Path, header: dict[str, Any], plan: MetricPlan) -> None:
    """A metric that settled by itself is done; another has the steps that were asked for, or is another metric."""
    settled = plan.training.settle and has_settled(header["checks"], plan.training)
    if plan.steps in (None, header["step"]) or (settled and header["step"] < plan.steps):
        return
    _refuse_length(folder, header, plan.steps)


def _refuse_length(folder: pathlib.Path, header: dict[str, Any], wanted: int) -> None:
    raise PloffError(
        f"the metric in {folder} was learned for {header['step']:,} steps, not {wanted:,}; "
        "leave --metric-steps out, or choose another --out"
    )


def metric_settings(folder: pathlib.Path) -> dict[str, Any]:
    """What the metric in a folder is: its settings, and its steps."""
    header = storage.load_header(folder / CHECKPOINT)
    return {**header["config"], "steps": header["step"]}


def parts(
    kind: EvidenceKind, folder: pathlib.Path, data: Transitions
) -> tuple[Embedding, Transitions, Source, pathlib.Path]:
    """A metric, the log in its units, the fingerprints of both, and the place of the neighbours' table."""
    if kind == "l2":
        seen = data.with_standard_observations()
        return Euclidean(), seen, Source.of(Euclidean.fingerprint(seen), data), folder / L2_TABLE
    learned: LearnedMetric = load_metric(folder)
    _refuse_other_dataset(folder, storage.load_header(folder / CHECKPOINT), data)
    seen = learned.in_units_of(data)
    return learned.metric, seen, Source.of(learned.fingerprint, data), folder / TABLE


def _refuse_other_dataset(folder: pathlib.Path, header: dict[str, Any], data: Transitions) -> None:
    if header["dataset"] != data.fingerprint():
        raise PloffError(
            f"the metric in {folder} was learned from another dataset than {data.origin.name}; "
            "name that one, or another folder"
        )


def _made_from(path: pathlib.Path, source: Source) -> bool:
    header = storage.load_header(path)
    return all(header.get(name) == wanted for name, wanted in dataclasses.asdict(source).items())


@contextlib.contextmanager
def one_at_a_time(folder: pathlib.Path) -> Iterator[None]:
    """Held while the metric or the neighbours of a folder are made; waits for another process that makes them."""

    def say() -> None:
        console.print(f"waiting for another process that works in {folder}", highlight=False)

    with storage.exclusive(folder / ".stages.lock", waiting=say):
        yield
