"""Explanations of a run's policy, or of logged actions where only a metric was learned."""

import pathlib
from typing import Any

import numpy as np

from ploff import datasets
from ploff.experiments.logs import embedded_log
from ploff.experiments.run_folder import GATE, POLICY, find_metric, find_run_folders, load_policy, read_config
from ploff.judging import Gate
from ploff.neighbors import DataDistance, find_neighbors
from ploff.neighbors.explain import Explainer
from ploff.relevance import Relevance
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.errors import PloffError


def open_explainer(path: pathlib.Path, dataset: str | None = None) -> tuple[Explainer, Transitions, Gate | None]:
    """Explains actions of the policy in a folder, or logged ones where there is none.

    Args:
      path: what `ploff train` or `ploff metric` made.
      dataset: the log, if it is not where it was.

    Returns:
      The explainer, the log, and the gate that `ploff judge` left, if it is over this metric and log.
    """
    runs = find_run_folders(path)
    if len(runs) > 1:
        raise PloffError(f"{path} holds {len(runs)} runs; name one of {', '.join(map(str, runs))}")
    config: dict[str, Any] = {"relevance": None}
    if runs:
        config = read_config(runs[0])
        data = datasets.load(dataset or config["dataset"], **config["reading"])
        kind = "l2" if config["distance"] == "l2" else "learned"
        place = find_metric(path) if config["metric"] is None else runs[0] / config["metric"]
    else:
        kind, place = "learned", find_metric(path)
        data = _logged_data(path, place, dataset)
    seen = data.with_normalized_observations()
    if config["relevance"] is not None:
        seen = Relevance.load(runs[0] / config["relevance"]).applied_to(data)
    log = embedded_log(kind, place, seen)
    table = find_neighbors(log.table, log.metric, log.data, log.key)
    distance = DataDistance.init(log.metric, log.data, np.asarray(table.rows))
    policy = scores = None
    if runs and any(runs[0].glob(f"seed-*/{POLICY}")):
        learned = load_policy(runs[0])
        policy = lambda observations: np.asarray(learned(observations))  # noqa: E731
        if data.action_space.kind == "discrete":
            scores = lambda observations: (learned.scores(observations), learned.probabilities(observations))  # noqa: E731
    return Explainer(log.data, distance, policy, scores), data, _gate(runs, log.key.metric, data)


def _gate(runs: list[pathlib.Path], metric: str, data: Transitions) -> Gate | None:
    """The gate beside a run's policies."""
    found = [Gate.load(file) for run in runs for file in sorted(run.glob(f"seed-*/{GATE}"))]
    return next((g for g in found if g.metric == metric and g.dataset == data.fingerprint()), None)


def _logged_data(path: pathlib.Path, place: pathlib.Path, dataset: str | None) -> Transitions:
    """The log that a metric was learned from: the one that was named, or the one that is noted beside it."""
    note = files.read_record(place / "dataset.json") if (place / "dataset.json").exists() else {}
    name = dataset or note.get("task")
    if name is None:
        raise PloffError(f"{path} does not say which dataset it was learned from; add --dataset NAME")
    return datasets.load(name, **note.get("reading", {}))
