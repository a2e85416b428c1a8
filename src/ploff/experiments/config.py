"""How long to train and how to evaluate, presets, and settings given by name."""

import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ploff.agents import Method
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining
from ploff.relevance import RelevanceConfig
from ploff.tasks import Family
from ploff.utils.config import check_choices, check_counts, check_within, structure_fields, to_plain
from ploff.utils.errors import UnknownNameError

Preset = Literal["default", "paper", "quick"]
PRESETS: tuple[Preset, ...] = typing.get_args(Preset)
METRIC = "metric"  # before a dot: a setting of the metric
MAX_SCAN_LENGTH = 1000
QUICK_METRIC_STEPS = 5_000
QUICK_RELEVANCE: dict[str, Any] = {"steps": 2_000, "members": 1}
LAST_EVALUATIONS: dict[Preset, int] = {"default": 3, "quick": 3, "paper": 1}  # whose mean is a run's score
Selection = Literal["last", "judge"]
HOLD_OUT = 0.1  # share of the episodes, where policies are to be judged and none is given


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentTraining:
    """How long a policy is trained, and how often it is evaluated."""

    steps: int = 100_000
    evaluate_every: int = 5_000  # steps; also after the last
    episodes: int = 10  # per evaluation
    hold_out: float = 0.0  # share of the log's episodes kept from training, for `ploff judge`
    select: Selection = "last"  # which policy is kept: the last, or the one that is judged best

    def __post_init__(self):
        check_counts(self, "steps", "evaluate_every", "episodes")
        check_within(self, "[0, 1)", "hold_out")
        check_choices(self)

    @classmethod
    def of(cls, preset: Preset, **changes: Any) -> "AgentTraining":
        """The lengths of a preset, with those changed that are not None."""
        check_preset(preset)
        lengths = {"paper": {"steps": 500_000}, "quick": {"steps": 12_000, "evaluate_every": 4_000}}
        given = {name: value for name, value in changes.items() if value is not None}
        if given.get("select") == "judge":
            given.setdefault("hold_out", HOLD_OUT)
        return cls(**{**lengths.get(preset, {}), **given})

    def to_plain(self) -> dict[str, Any]:
        """As runs are known by: without what is of judging where it is not asked for."""
        defaults = {"hold_out": 0.0, "select": "last"}
        return {name: value for name, value in to_plain(self).items() if defaults.get(name) != value}

    @property
    def scan_length(self) -> int:
        """Updates per compiled call: about even parts of what lies between two evaluations."""
        return math.ceil(self.evaluate_every / math.ceil(self.evaluate_every / MAX_SCAN_LENGTH))


def check_preset(name: str) -> None:
    """Refuses a preset that is none."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)


def method_config(method: Method, preset: Preset, settings: Mapping[str, Any], family: Family = "other") -> Any:
    """A method's configuration on a family of tasks; the preset `paper` changes those methods alone that have one."""
    return method.config(paper=family if preset == "paper" else None, **settings)


def metric_config(preset: Preset, settings: Mapping[str, Any]) -> MetricConfig:
    """The metric's configuration."""
    given = structure_fields(MetricConfig, settings, "setting of the metric")
    return MetricConfig.paper(**given) if preset == "paper" else MetricConfig(**given)


def metric_training(preset: Preset, steps: int | None, seed: int = 0) -> MetricTraining:
    """How long the metric is learned, and from which seed; `steps` are at most, the preset's if None."""
    if preset == "quick" and steps is None:
        steps = QUICK_METRIC_STEPS
    make = MetricTraining.paper if preset == "paper" else MetricTraining
    return make(seed=seed) if steps is None else make(steps=steps, seed=seed)


def relevance_config(preset: Preset) -> RelevanceConfig:
    """How relevance is learned."""
    return RelevanceConfig(**QUICK_RELEVANCE if preset == "quick" else {})


def by_owner(settings: Mapping[str, Any], methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Sorts settings by whom they are for: NAME for every method, METHOD.NAME for one, metric.NAME for the metric."""
    owners = {owner: dict[str, Any]() for owner in (*methods, METRIC)}
    for name, value in settings.items():
        owner, dot, field = name.rpartition(".")
        if dot and owner not in owners:
            raise UnknownNameError("owner of a setting", owner, owners)
        for each in [owner] if dot else methods:
            owners[each][field] = value
    return owners
