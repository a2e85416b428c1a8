"""From a log to a learned pseudometric: training with quality checks, run folders, and reading them back."""

import dataclasses
import functools
import math
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ploff import metric_learning, pseudometric, quality, storage
from ploff.actions import ActionSpace
from ploff.errors import PloffError, UnknownNameError
from ploff.metric_learning import MetricState
from ploff.pseudometric import MetricConfig, Pseudometric
from ploff.settings import counts, within
from ploff.training import Loop, Row, refuse_difference
from ploff.transitions import Affine, Transitions

CHECKPOINT = "metric/checkpoint.eqx"
PROBES = 500  # states whose neighbours are followed from check to check
NEIGHBOURS = 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricTraining:
    """How long to learn, and how to tell when it is enough."""

    steps: int = 100_000  # at most
    settle: bool = True  # stop earlier, once the checks hardly change
    check_every: int = 5_000  # steps
    patience: int = 2  # checks in a row that must agree
    agreement: float = 0.9  # least share of neighbours in common with the check before
    tolerance: float = 0.005  # largest change of the support area between checks
    held_out: float = 0.05  # share of the episodes that the checks measure on; 0: on those learned from
    chunk: int = 500  # steps in one compiled call
    seed: int = 0

    def __post_init__(self):
        counts(self, "steps", "chunk", "check_every", "patience")
        if self.check_every % self.chunk:
            raise PloffError(
                f"check_every must be a multiple of chunk, got {self.check_every} and {self.chunk}"
            )
        within(self, "[0, 1)", "held_out")

    @classmethod
    def paper(cls, **changes: Any) -> "MetricTraining":
        """As long as the paper trained."""
        return cls(**{"steps": 2_000_000, "settle": False, **changes})


@dataclasses.dataclass(frozen=True)
class LearnedMetric:
    """A pseudometric with what is known about it, and the units of the observations that it takes."""

    metric: Pseudometric
    config: MetricConfig
    bound: float  # no learned distance can exceed it
    observation_units: Affine
    history: list[Row]
    checks: list[Row]

    def in_units_of(self, data: Transitions) -> Transitions:
        """The same transitions, read in the units that this metric was trained in."""
        return dataclasses.replace(data, observation_units=self.observation_units)

    def state_distances(self, observations: Float[np.ndarray, "Q *obs"]) -> Float[np.ndarray, "Q Q"]:
        """The learned distances between states given in the log's own units, each with each."""
        embedded = self.metric.embed_states(self.observation_units.apply(jnp.asarray(observations)))
        return np.asarray(self.metric.state_distance(embedded[:, None], embedded[None]))

    def summary(self) -> str:
        """What was reached, in a few lines."""
        last, largest = self.history[-1], max(row["largest_distance"] for row in self.history)
        lines = [
            f"{last['step']:,} steps; losses: Φ {last['loss_phi']:.3g}, Ψ {last['loss_psi']:.3g}",
            f"largest distance {largest:.3g}, bound {self.bound:.3g}",
        ]
        if largest > self.bound:
            lines.append(
                "a distance exceeds its bound: this metric is wrong in places; bounded=True prevents it"
            )
        if self.checks:
            check = self.checks[-1]
            kept = f", neighbours kept {check['agreement']:.0%}" if "agreement" in check else ""
            lines.append(
                f"held out: residual {check['residual']:.1%}, logged against random actions "
                f"{check['support_auc']:.3f}, against noisy ones {check['noise_auc']:.3f}{kept}"
            )
        return "\n".join(lines)

    @property
    def fingerprint(self) -> str:
        """Tells this metric from any other."""
        return storage.fingerprint((self.metric, self.observation_units))


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
      data: logged transitions, as loaded; rewards are scaled and observations standardised here.
      config: the metric and its losses.
      training: how long, and when to stop.
      out: a run folder; training goes on from the checkpoint there, if there is one, and leaves its own.
      quiet: show no progress.
    """
    config, training = config or MetricConfig(), training or MetricTraining()
    data = in_training_units(data, config)
    split = quality.Split.by_episode(data, training.held_out, training.seed)
    if len(split.train) == 0:
        raise PloffError(f"{data.origin.name}: no transition with a known successor is left to learn from")
    init_key, check_key = jax.random.split(jax.random.fold_in(jax.random.key(training.seed), 2**31 - 1))
    state = metric_learning.init(init_key, data, config)
    limit = pseudometric.bound(data, config)
    action_difference = pseudometric.typical_action_difference(data)
    header = _header(data, config, training, limit, action_difference)
    checkpoint = pathlib.Path(out) / CHECKPOINT if out is not None else None
    if checkpoint is not None and checkpoint.exists():
        _same_run(checkpoint, header)
    device = data.to_device()
    rows = jnp.asarray(split.train, jnp.int32)
    loop = Loop(
        "metric",
        update_of(config),
        state,
        (device, rows),
        seed=training.seed,
        chunk=training.chunk,
        checkpoint=checkpoint,
        header=header,
        memory=_no_neighbours(),
    )
    check = _Check(device, split, check_key, config, action_difference)
    final = loop.run(
        training.steps,
        check=check,
        check_every=training.check_every,
        settled=lambda checks: training.settle and has_settled(checks, training),
        healthy=lambda row: _problem(row, limit),
        quiet=quiet,
    )
    metric = metric_learning.finished(final, data.action_space, action_difference, config)
    return LearnedMetric(metric, config, limit, data.observation_units, loop.history, loop.checks)


def load_metric(run: str | os.PathLike[str]) -> LearnedMetric:
    """The metric of a run folder; the dataset is not needed."""
    checkpoint = pathlib.Path(run) / CHECKPOINT
    if not checkpoint.exists():
        raise PloffError(f"no learned metric in {run}; `ploff metric DATASET --out {run}` makes one")
    header = storage.load_header(checkpoint)
    config = config_from_json(header["config"])
    space = ActionSpace.from_json(header["action_space"])
    shape = tuple(header["observation_shape"])
    metric = pseudometric.build(jax.random.key(0), shape, space, config, header["bound"])
    state, _ = storage.load_tree(checkpoint, (metric_learning.start(metric, config), _no_neighbours()))
    units = Affine.from_json(header["observation_units"])
    metric = metric_learning.finished(state, space, header["action_difference"], config)
    return LearnedMetric(metric, config, header["bound"], units, header["history"], header["checks"])


def in_training_units(data: Transitions, config: MetricConfig) -> Transitions:
    """Scaled rewards; observations standardised if the configuration says so, and images always."""
    data, images = data.with_unit_rewards(), len(data.observation_shape) > 1
    return data.with_standard_observations() if config.standardise or images else data


def has_settled(checks: list[Row], training: MetricTraining) -> bool:
    """Whether neighbours and support have hardly changed over the last `patience` checks."""
    recent = checks[-training.patience - 1 :]
    if len(recent) <= training.patience:
        return False
    steady = all(row["agreement"] >= training.agreement for row in recent[1:])
    areas = [row["support_auc"] for row in recent]
    return steady and max(areas) - min(areas) <= training.tolerance


class _Check:
    """Measures a state of training, and how far the neighbours are from those of the check before."""

    def __init__(
        self,
        data: Transitions,
        split: quality.Split,
        key: jax.Array,
        config: MetricConfig,
        action_difference: float,
    ):
        self.data, self.split, self.key, self.config = data, split, key, config
        self.action_difference = action_difference
        rng = np.random.default_rng(0)
        self.probes = rng.permutation(split.train)[:PROBES]
        self.base = rng.permutation(split.train)[:20_000]

    def __call__(self, loop: Loop[MetricState]) -> Row:
        space = self.data.action_space
        metric = metric_learning.finished(loop.state, space, self.action_difference, self.config)
        now = quality.nearest_rows(metric, self.data, self.base, self.probes, NEIGHBOURS)
        before, loop.memory = loop.memory, _no_neighbours().at[: now.shape[0], : now.shape[1]].set(now)
        uniform, noisy = quality.support(metric, self.data, self.split, self.key, k=NEIGHBOURS)
        row = {
            "residual": quality.residual(metric, self.data, self.split.held_out, self.key, self.config),
            "support_auc": uniform,
            "noise_auc": noisy,
        }
        if before[0, 0] >= 0:  # there was a check before
            row["agreement"] = quality.agreement(np.asarray(before)[: len(now), : now.shape[1]], now)
        return row


def _problem(row: Row, limit: float) -> str | None:
    if math.isfinite(row["largest_distance"]) and row["largest_distance"] > 10 * limit > 0:
        return (
            f"a distance of {row['largest_distance']:.3g} where {limit:.3g} is the most there can be; "
            "try bounded=True, next_actions='log' or a lower learning rate"
        )
    return None


def _no_neighbours() -> jax.Array:
    return jnp.full((PROBES, NEIGHBOURS), -1, jnp.int32)


@functools.lru_cache(maxsize=8)
def update_of(config: MetricConfig) -> Any:
    """The update of a configuration: one object each, so that it is compiled once."""
    return functools.partial(_update_with, config)


def _update_with(
    config: MetricConfig, state: MetricState, data: Transitions, rows: jax.Array, key: jax.Array
) -> Any:
    return metric_learning.update(state, data, rows, key, config)


def _header(
    data: Transitions, config: MetricConfig, training: MetricTraining, limit: float, action_difference: float
) -> dict[str, Any]:
    """What it takes to read the metric without its dataset, and to tell another run from this one."""
    return {
        "config": dataclasses.asdict(config),
        "seed": training.seed,
        "held_out": training.held_out,
        "dataset": data.fingerprint(),
        "observation_shape": data.observation_shape,
        "action_space": dataclasses.asdict(data.action_space),
        "observation_units": data.observation_units.to_json(),
        "bound": limit,
        "action_difference": action_difference,
    }


def _same_run(checkpoint: pathlib.Path, header: dict[str, Any]) -> None:
    """Refuses to go on from a checkpoint of other data or other settings, naming the first difference."""
    found, same = storage.load_header(checkpoint), ("dataset", "config", "seed", "held_out")
    refuse_difference(checkpoint, {name: found[name] for name in same}, {name: header[name] for name in same})


def config_from_json(fields: dict[str, Any]) -> MetricConfig:
    """A configuration as it was written; unknown fields fail."""
    known = {field.name for field in dataclasses.fields(MetricConfig)}
    for name in fields:
        if name not in known:
            raise UnknownNameError("metric setting", name, known)
    return MetricConfig(**storage.as_settings(fields))
