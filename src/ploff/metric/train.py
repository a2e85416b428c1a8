"""From a log to a learned pseudometric: training with quality checks, run folders, and reading them back."""

import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Generator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ploff.actions import ActionSpace
from ploff.metric import learner, quality
from ploff.metric.learner import MetricState, finished_metric
from ploff.metric.pseudometric import (
    MetricConfig,
    Pseudometric,
    build_metric,
    distance_bound,
    mean_action_distance,
    sees_ends,
)
from ploff.training.checkpoint import load_header, load_tree, refuse_difference
from ploff.training.episode_split import EpisodeSplit
from ploff.training.loop import Row, TrainingRun
from ploff.transitions import Normalizer, Transitions
from ploff.utils import files
from ploff.utils.config import check_counts, check_within, structure, to_plain
from ploff.utils.errors import PloffError
from ploff.utils.progress import Progress, follow

CHECKPOINT = "metric.eqx"
NUM_PROBES = 500  # states whose neighbors are followed from check to check
NUM_NEIGHBORS = 50
WATCHED = ("phi_loss", "psi_loss", "support_auc", "mean_distance", "max_distance")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricTraining:
    """How long to learn, and how to tell when it is enough."""

    steps: int = 100_000  # at most
    early_stopping: bool = True  # stop once the checks hardly change
    check_every: int = 5_000  # steps
    patience: int = 2  # checks in a row that must agree
    min_neighbor_overlap: float = 0.9  # least share of neighbors in common with the check before
    tolerance: float = 0.005  # largest change of the support area between checks
    validation_fraction: float = 0.05  # share of the episodes that checks measure on; 0: on those learned from
    scan_length: int = 500  # updates per compiled call
    seed: int = 0  # seeds every random draw

    def __post_init__(self):
        check_counts(self, "steps", "scan_length", "check_every", "patience")
        if self.check_every % self.scan_length:
            raise PloffError(
                f"check_every must be a multiple of scan_length, got {self.check_every} and {self.scan_length}"
            )
        check_within(self, "[0, 1)", "validation_fraction")

    @classmethod
    def paper(cls, **changes: Any) -> "MetricTraining":
        """As long as the paper trained, on the whole log."""
        return cls(**{"steps": 2_000_000, "early_stopping": False, "validation_fraction": 0.0, **changes})


@dataclasses.dataclass(frozen=True)
class LearnedMetric:
    """A pseudometric with what is known about it, and the normalizer of the observations that it takes."""

    metric: Pseudometric
    config: MetricConfig
    bound: float  # no learned distance can exceed it
    observation_normalizer: Normalizer
    history: list[Row]
    checks: list[Row]

    def in_units_of(self, data: Transitions) -> Transitions:
        """The same transitions, read in the units that this metric was trained in."""
        return dataclasses.replace(data, observation_normalizer=self.observation_normalizer)

    def state_distances(self, observations: Float[np.ndarray, "Q *obs"]) -> Float[np.ndarray, "Q Q"]:
        """The learned distances between states given in the log's own units, each with each."""
        embedded = self.metric.embed_states(self.observation_normalizer.normalize(jnp.asarray(observations)))
        return np.asarray(self.metric.state_distance(embedded[:, None], embedded[None]))

    def summary(self) -> str:
        """What was reached, in a few lines."""
        last, largest = self.history[-1], self.history[-1]["max_distance"]
        lines = [
            f"{last['step']:,} steps; losses: Φ {last['phi_loss']:.3g}, Ψ {last['psi_loss']:.3g}",
            f"largest distance {largest:.3g}, bound {self.bound:.3g}",
        ]
        if self.exceeds_bound:
            lines.append("a distance exceeds its bound: this metric is wrong in places; bounded=True prevents it")
        if self.checks:
            check = self.checks[-1]
            kept = f", neighbors kept {check['neighbor_overlap']:.0%}" if "neighbor_overlap" in check else ""
            lines.append(
                f"held out: residual {check['residual']:.1%}, logged against random actions "
                f"{check['support_auc']:.3f}, against noisy ones {check['noise_auc']:.3f}{kept}"
            )
        return "\n".join(lines)

    @property
    def exceeds_bound(self) -> bool:
        """Whether a distance was beyond the bound where training ended; the random start does not count."""
        return self.history[-1]["max_distance"] > self.bound

    @property
    def fingerprint(self) -> str:
        """Tells this metric from any other."""
        return files.fingerprint((self.metric, self.observation_normalizer))


def learn_metric(
    data: Transitions,
    config: MetricConfig | None = None,
    training: MetricTraining | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> LearnedMetric:
    """Learns the pseudometric of a log (paper, algorithm 1, first half).

    Args:
      data: logged transitions, as loaded, or in the coordinates of a relevance; rewards are scaled and observations
        normalized here.
      config: the metric and its losses.
      training: how long, and when to stop.
      out: a folder; training resumes from the checkpoint there, if there is one, and leaves its own.
      quiet: show no progress.

    Returns:
      The metric, with its history and checks.
    """
    return follow("metric", train_metric(data, config, training, out=out), quiet=quiet)


def train_metric(
    data: Transitions,
    config: MetricConfig | None = None,
    training: MetricTraining | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
) -> Generator[Progress, None, LearnedMetric]:
    """Does what `learn_metric` does, as a generator of its progress."""
    config, training = config or MetricConfig(), training or MetricTraining()
    data = in_training_units(data, config)
    rows = data.rows_with_target() if config.ends else data.rows_with_successor()
    split = EpisodeSplit.of(data, training.validation_fraction, training.seed, rows)
    if len(split.train) == 0:
        raise PloffError(f"{data.origin.name}: no transition with a known successor is left to learn from")
    init_key, check_key = jax.random.split(jax.random.fold_in(jax.random.key(training.seed), 2**31 - 1))
    limit, action_distance = distance_bound(data, config), mean_action_distance(data)
    header = _header(data, config, training, limit, action_distance)
    checkpoint = pathlib.Path(out) / CHECKPOINT if out is not None else None
    if checkpoint is not None and checkpoint.exists():
        _check_same_run(checkpoint, header, training.steps)
    device = data.to_device()
    run = TrainingRun(
        "metric",
        learner.init(init_key, data, config),
        checkpoint=checkpoint,
        header=header,
        memory=_no_neighbors(),
        evaluations_name="checks",
    )
    check = _Check(device, split, check_key, config, action_distance)
    with run.saved_when_stopped():
        if run.evaluation_is_due(training.check_every):  # it may have been cut off between a step and its check
            run.evaluations.append(check(run))
        stopped = training.early_stopping and has_settled(run.evaluations, training)
        updates = run.updates(
            update_fn(config),
            (device, jnp.asarray(split.train, jnp.int32)),
            steps=run.step if stopped else training.steps,
            seed=training.seed,
            scan_length=training.scan_length,
            evaluate_every=training.check_every,
            check=lambda row: _problem(row, limit),
        )
        yield Progress(run.step, training.steps)
        for row in updates:
            values = {**row, **(run.evaluations[-1] if run.evaluations else {})}
            yield Progress(run.step, training.steps, {name: values[name] for name in WATCHED if name in values})
            if run.evaluation_is_due(training.check_every):
                run.evaluations.append(check(run))
            if training.early_stopping and has_settled(run.evaluations, training):
                break
    run.save(finished=True)
    metric = finished_metric(run.state, data.action_space, action_distance, config)
    return LearnedMetric(metric, config, limit, data.observation_normalizer, run.history, run.evaluations)


def load_metric(folder: str | os.PathLike[str]) -> LearnedMetric:
    """The metric in a folder; the dataset is not needed."""
    checkpoint = pathlib.Path(folder) / CHECKPOINT
    if not checkpoint.exists():
        raise PloffError(f"no learned metric in {folder}; `ploff metric DATASET --out {folder}` makes one")
    header = load_header(checkpoint)
    config = structure(MetricConfig, header["config"], "metric setting")
    space = structure(ActionSpace, header["action_space"], "action space")
    shape = tuple(header["input_shape"])
    metric = build_metric(jax.random.key(0), shape, space, config, header["bound"], has_end=header["has_end"])
    state, _ = load_tree(checkpoint, (learner.init_from(metric, config), _no_neighbors()))
    normalizer = Normalizer.from_json(header["observation_normalizer"])
    metric = finished_metric(state, space, header["action_distance"], config)
    return LearnedMetric(metric, config, header["bound"], normalizer, header["history"], header["evaluations"])


def in_training_units(data: Transitions, config: MetricConfig) -> Transitions:
    """Scaled rewards; observations normalized if the configuration says so, and images always.

    Observations that are seen in the coordinates of a relevance stay there.
    """
    data, images = data.with_unit_rewards(), len(data.observation_shape) > 1
    if data.observation_normalizer.map is not None:
        return data
    return data.with_normalized_observations() if config.normalize_observations or images else data


def has_settled(checks: list[Row], training: MetricTraining) -> bool:
    """Whether neighbors and support have hardly changed over the last `patience` checks."""
    recent = checks[-training.patience - 1 :]
    if len(recent) <= training.patience:
        return False
    steady = all(row["neighbor_overlap"] >= training.min_neighbor_overlap for row in recent[1:])
    areas = [row["support_auc"] for row in recent]
    return steady and max(areas) - min(areas) <= training.tolerance


class _Check:
    """Measures a state of training, and how far the neighbors are from those of the check before."""

    def __init__(
        self,
        data: Transitions,
        split: EpisodeSplit,
        key: jax.Array,
        config: MetricConfig,
        action_distance: float,
    ):
        self.data, self.split, self.key, self.config = data, split, key, config
        self.action_distance = action_distance
        rng = np.random.default_rng(0)
        self.probes = rng.permutation(split.train)[:NUM_PROBES]
        self.base = rng.permutation(split.train)[:20_000]

    def __call__(self, run: TrainingRun[MetricState]) -> Row:
        metric = finished_metric(run.state, self.data.action_space, self.action_distance, self.config)
        now = quality.nearest_rows(metric, self.data, self.base, self.probes, NUM_NEIGHBORS)
        before, run.memory = run.memory, _no_neighbors().at[: now.shape[0], : now.shape[1]].set(now)
        uniform, noisy = quality.support_auc(metric, self.data, self.split, self.key, k=NUM_NEIGHBORS)
        residual = quality.bellman_residual(metric, self.data, self.split.validation, self.key, self.config)
        row = {"step": run.step, "residual": residual, "support_auc": uniform, "noise_auc": noisy}
        if before[0, 0] >= 0:  # there was a check before
            row["neighbor_overlap"] = quality.neighbor_overlap(np.asarray(before)[: len(now), : now.shape[1]], now)
        return row


def _problem(row: Row, limit: float) -> str | None:
    if math.isfinite(row["max_distance"]) and row["max_distance"] > 10 * limit > 0:
        return (
            f"a distance of {row['max_distance']:.3g} where {limit:.3g} is the most there can be; "
            "try bounded=True, next_actions='log' or a lower learning rate"
        )
    return None


def _no_neighbors() -> jax.Array:
    return jnp.full((NUM_PROBES, NUM_NEIGHBORS), -1, jnp.int32)


@functools.lru_cache(maxsize=8)
def update_fn(config: MetricConfig) -> Any:
    """The update of a configuration: one object each, so that it is compiled once."""
    return lambda state, data, rows, key: learner.update(state, data, rows, key, config)


def _header(
    data: Transitions, config: MetricConfig, training: MetricTraining, limit: float, action_distance: float
) -> dict[str, Any]:
    """What it takes to read the metric without its dataset, and to tell another run from this one."""
    return {
        "config": to_plain(config),
        "training": to_plain(training),
        "dataset": data.fingerprint(),
        "input_shape": data.input_shape,
        "action_space": to_plain(data.action_space),
        "observation_normalizer": data.observation_normalizer.to_json(),
        "coordinates": coordinates_of(data),
        "bound": limit,
        "has_end": sees_ends(data, config),
        "action_distance": action_distance,
    }


def _check_same_run(checkpoint: pathlib.Path, header: dict[str, Any], steps: int) -> None:
    """Refuses to resume a checkpoint of other data, other settings or more steps, naming the first difference."""
    found = load_header(checkpoint)
    refuse_difference(checkpoint, run_identity(found), run_identity(header))
    if found["step"] > steps:
        raise PloffError(
            f"{checkpoint} has been trained for {found['step']:,} steps, more than {steps:,}; "
            "give as many or more --steps, or choose another --out"
        )


def run_identity(header: dict[str, Any]) -> dict[str, Any]:
    """What must not change between a metric's first step and its last: all but how long it is trained."""
    training = {name: header["training"][name] for name in ("seed", "validation_fraction")}
    return {name: header[name] for name in ("dataset", "coordinates", "config")} | {"training": training}


def coordinates_of(data: Transitions) -> str | None:
    """Tells the coordinates in which observations are seen from others; None for standardized columns."""
    return None if data.observation_normalizer.map is None else files.fingerprint(data.observation_normalizer)
