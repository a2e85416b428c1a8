"""PLOff: offline reinforcement learning with pseudometric learning.

The public names. Each is imported when it is first used, so that `import ploff` and `ploff --help` answer at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ploff.actions import ActionSpace
    from ploff.agents.policy import Policy
    from ploff.datasets import from_arrays, from_dataframe, load, save
    from ploff.environments import make as make_environment
    from ploff.environments.collection import collect
    from ploff.environments.evaluation import Evaluation, evaluate
    from ploff.experiments import Run, compare, load_policy, load_run, train
    from ploff.judging import Gate, JudgeConfig, Judgment, LogDistance, judge
    from ploff.metric.pseudometric import MetricConfig, Pseudometric
    from ploff.metric.train import LearnedMetric, MetricTraining, learn_metric, load_metric
    from ploff.neighbors import DataDistance, Euclidean, find_neighbors
    from ploff.transitions import Origin, Transitions
    from ploff.utils.errors import DataError, MissingExtraError, PloffError, UnknownNameError

_PLACES = {
    "actions": ("ActionSpace",),
    "agents.policy": ("Policy",),
    "datasets": ("from_arrays", "from_dataframe", "load", "save"),
    "environments": ("make_environment",),
    "environments.collection": ("collect",),
    "environments.evaluation": ("Evaluation", "evaluate"),
    "experiments": ("Run", "compare", "load_policy", "load_run", "train"),
    "judging": ("Gate", "JudgeConfig", "Judgment", "LogDistance", "judge"),
    "metric.pseudometric": ("MetricConfig", "Pseudometric"),
    "metric.train": ("LearnedMetric", "MetricTraining", "learn_metric", "load_metric"),
    "neighbors": ("DataDistance", "Euclidean", "find_neighbors"),
    "transitions": ("Origin", "Transitions"),
    "utils.errors": ("DataError", "MissingExtraError", "PloffError", "UnknownNameError"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
_OTHER_NAMES = {"make_environment": "make"}  # a name that says enough inside its module only

__all__ = [
    "ActionSpace",
    "DataDistance",
    "DataError",
    "Euclidean",
    "Evaluation",
    "Gate",
    "JudgeConfig",
    "Judgment",
    "LearnedMetric",
    "LogDistance",
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
    "find_neighbors",
    "from_arrays",
    "from_dataframe",
    "judge",
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
