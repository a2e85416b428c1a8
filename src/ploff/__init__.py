"""PLOff: offline reinforcement learning with pseudometric learning.

The public names. Each is imported when it is first used, so that `import ploff` and `ploff --help` answer at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ploff.actions import ActionSpace
    from ploff.collection import collect
    from ploff.datasets import load, save
    from ploff.environments import make as make_environment
    from ploff.errors import DataError, MissingExtraError, PloffError, UnknownNameError
    from ploff.evaluation import Evaluation, evaluate
    from ploff.metric_training import LearnedMetric, MetricTraining, learn_metric, load_metric
    from ploff.neighbors import DataDistance, Euclidean, find_neighbours
    from ploff.pipeline import Policy, Run, compare, load_policy, load_run, train
    from ploff.pseudometric import MetricConfig, Pseudometric
    from ploff.transitions import Origin, Transitions

_PLACES = {
    "actions": ("ActionSpace",),
    "collection": ("collect",),
    "datasets": ("load", "save"),
    "environments": ("make_environment",),
    "errors": ("DataError", "MissingExtraError", "PloffError", "UnknownNameError"),
    "evaluation": ("Evaluation", "evaluate"),
    "metric_training": ("LearnedMetric", "MetricTraining", "learn_metric", "load_metric"),
    "neighbors": ("DataDistance", "Euclidean", "find_neighbours"),
    "pipeline": ("Policy", "Run", "compare", "load_policy", "load_run", "train"),
    "pseudometric": ("MetricConfig", "Pseudometric"),
    "transitions": ("Origin", "Transitions"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
_OTHER_NAMES = {"make_environment": "make"}  # a name that says enough inside its module only

__all__ = [
    "ActionSpace",
    "DataDistance",
    "DataError",
    "Euclidean",
    "Evaluation",
    "LearnedMetric",
    "MetricConfig",
    "MetricTraining",
    "MissingExtraError",
    "Origin",
    "PloffError",
    "Policy",
    "Pseudometric",
    "Run",
    "Transitions",
    "UnknownNameError",
    "collect",
    "compare",
    "evaluate",
    "find_neighbours",
    "learn_metric",
    "load",
    "load_metric",
    "load_policy",
    "load_run",
    "make_environment",
    "save",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ploff' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ploff.{_MODULES[name]}"), _OTHER_NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
