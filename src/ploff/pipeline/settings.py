"""How long to train and how to judge it, and settings given by name.

A setting may be given as text (`batch=128`, `hidden=256,256`, `layer_norm=true`): it is read as its field's type says.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ploff import agents, storage
from ploff.errors import PloffError, UnknownNameError
from ploff.metric_training import MetricTraining
from ploff.pseudometric import MetricConfig
from ploff.settings import counts

Preset = Literal["default", "paper", "quick"]
PRESETS: tuple[Preset, ...] = typing.get_args(Preset)
METRIC = "metric"  # before a dot: a setting of the metric
LONGEST_CHUNK = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentTraining:
    """How long a policy is trained, and how often it is tried."""

    steps: int = 100_000
    evaluate_every: int = 5_000  # steps; also after the last
    episodes: int = 10  # of an evaluation

    def __post_init__(self):
        counts(self, "steps", "evaluate_every", "episodes")

    @classmethod
    def paper(cls, **changes: Any) -> "AgentTraining":
        """As long as the paper trained."""
        return cls(**{"steps": 500_000, **changes})

    @classmethod
    def quick(cls, **changes: Any) -> "AgentTraining":
        """A first look, in minutes."""
        return cls(**{"steps": 12_000, "evaluate_every": 4_000, **changes})

    @property
    def chunk(self) -> int:
        """Steps in one compiled call: about even parts of what lies between two evaluations."""
        return math.ceil(self.evaluate_every / math.ceil(self.evaluate_every / LONGEST_CHUNK))


QUICK_METRIC_STEPS = 5_000


@dataclasses.dataclass(frozen=True)
class MetricPlan:
    """The metric that a run learns if it finds none: its settings, and what was asked for by name."""

    config: MetricConfig
    training: MetricTraining
    asked: tuple[str, ...] = ()  # names of settings
    steps: int | None = None


def check_preset(name: str) -> None:
    """Refuses a preset that is none."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)


def agent_training(preset: Preset, **changes: Any) -> AgentTraining:
    """The lengths of a preset, with those changed that are not None."""
    check_preset(preset)
    make = AgentTraining if preset == "default" else getattr(AgentTraining, preset)
    return make(**{name: value for name, value in changes.items() if value is not None})


def metric_plan(preset: Preset, steps: int | None, given: Mapping[str, Any]) -> MetricPlan:
    """What a run's own metric is to be; `given` are changed settings."""
    settings = typed(MetricConfig, given, "setting of the metric")
    config = MetricConfig.paper(**settings) if preset == "paper" else MetricConfig(**settings)
    length: dict[str, Any] = {"steps": steps} if steps is not None else {}
    if preset == "quick":
        length: dict[str, Any] = {"steps": QUICK_METRIC_STEPS, **length}
    training = MetricTraining.paper(**length) if preset == "paper" else MetricTraining(**length)
    asked = tuple(dataclasses.asdict(config)) if preset == "paper" else tuple(settings)
    return MetricPlan(config, training, asked, steps)


def method_config(method: agents.Method, preset: Preset, given: Mapping[str, Any]) -> Any:
    """A method's configuration; the preset `paper` changes those methods alone that have one."""
    settings = typed(method.config_type, given, f"setting of {method.name}")
    return method.config(paper=preset == "paper", **settings)


def by_owner(settings: Mapping[str, Any], methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings sorted by whom they are for: NAME for every method, METHOD.NAME for one, metric.NAME for the metric."""
    owners = {owner: dict[str, Any]() for owner in (*methods, METRIC)}
    for name, value in settings.items():
        owner, dot, field = name.rpartition(".")
        if dot and owner not in owners:
            raise UnknownNameError("owner of a setting", owner, owners)
        for each in [owner] if dot else methods:
            owners[each][field] = value
    return owners


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """{name: value} of texts NAME=VALUE."""
    parted = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, parted, strict=True):
        if not (name and equals):
            raise PloffError(f"a setting is given as NAME=VALUE, got {text!r}")
    return {name: value for name, _, value in parted}


def typed(kind: Any, given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The settings with text read as the type of its field; unknown names fail."""
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    for name in given:
        if name not in known:
            raise UnknownNameError(what, name, known)
    read = {
        name: _read(value, hints[name], f"{what} {name}") if isinstance(value, str) else value
        for name, value in given.items()
    }
    return storage.as_settings(read)


def _read(text: str, hint: Any, what: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if text not in arguments:
            raise PloffError(f"{what} is one of {', '.join(map(str, arguments))}, got {text!r}")
        return text
    if origin in (typing.Union, types.UnionType):
        if text.lower() == "none" and type(None) in arguments:
            return None
        return _read(text, next(kind for kind in arguments if kind is not type(None)), what)
    if origin is tuple:
        return tuple(_read(part, arguments[0], what) for part in text.split(",") if part)
    if hint is bool:
        if text.lower() not in ("true", "false"):
            raise PloffError(f"{what} is true or false, got {text!r}")
        return text.lower() == "true"
    try:
        return hint(text)
    except ValueError:
        wanted = {int: "a whole number", float: "a number"}.get(hint, str(hint))
        raise PloffError(f"{what} is {wanted}, got {text!r}") from None
