"""The methods by name, behind the same functions.

    state = init(key, dataset, config)
    state, info = update(state, dataset, key, config)   # pure: compiled and scanned; `info` is a flat dict of scalars
    actor = policy(state)                               # a module from normalized observations to actions

A method names its configuration and what it needs beside the log: nothing, distances in the learned metric, or
distances in plain L2. `METHODS` is the table that `ploff train --method` chooses from; a method's own file is loaded
when it is asked for.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any, Literal

from ploff.tasks import Family
from ploff.transitions import Transitions
from ploff.utils.config import structure_fields
from ploff.utils.errors import PloffError, UnknownNameError

DistanceKind = Literal["none", "learned", "l2"]


@dataclasses.dataclass(frozen=True)
class Method:
    """A method by its name: where its functions are, and its settings."""

    name: str
    module: str  # under ploff.agents
    config_class: str
    distance: DistanceKind = "none"
    paper: str = ""  # who published it
    relevance: bool = False  # whether it sees observations in the coordinates that matter, unless it is told otherwise
    actions: Literal["box", "discrete"] = "box"
    stands_for: str = ""  # the method for boxes whose place it takes where actions are discrete

    def config(self, *, paper: Family | None = None, **settings: Any) -> Any:
        """Makes the configuration.

        Args:
          paper: begin with what the paper printed for this family of tasks, where it did, instead of the defaults.
          **settings: fields to change, as values or as text.
        """
        kind = self.config_type
        make = functools.partial(kind.paper, paper) if paper and hasattr(kind, "paper") else kind
        return make(**structure_fields(kind, settings, f"setting of {self.name}"))

    @property
    def config_type(self) -> Any:
        """The dataclass of its settings."""
        return getattr(self._file(), self.config_class)

    @property
    def init(self) -> Callable[..., Any]:
        """See the module's text."""
        return self._file().init

    @property
    def policy(self) -> Callable[[Any], Any]:
        """See the module's text."""
        return self._file().policy

    def update_fn(self, config: Any) -> Callable[..., Any]:
        """(state, dataset, key) to (state, info): one object for each configuration, so that it is compiled once."""
        return _update_fn(self.module, config)

    def _file(self) -> Any:
        return importlib.import_module(f"ploff.agents.{self.module}")


@functools.lru_cache(maxsize=64)
def _update_fn(module: str, config: Any) -> Callable[..., Any]:
    update = importlib.import_module(f"ploff.agents.{module}").update
    return lambda state, dataset, key: update(state, dataset, key, config)


METHODS = {
    method.name: method
    for method in (
        Method("ploff", "ploff", "PloffConfig", "learned", "Dadashi et al., 2021, with our default", True),
        Method("ploff-l2", "ploff", "PloffConfig", "l2", "Dadashi et al., 2021: distances in plain L2", True),
        Method("td3-off", "td3_off", "TD3OffConfig", "none", "Dadashi et al., 2021: PLOff without its bonus", True),
        Method("bc", "bc", "BCConfig", "none", "behavioral cloning"),
        Method("td3-bc", "td3_bc", "TD3BCConfig", "none", "Fujimoto and Gu, 2021"),
        Method("bear", "bear", "BEARConfig", "none", "Kumar et al., 2019"),
        Method("brac-v", "brac_v", "BRACvConfig", "none", "Wu, Tucker and Nachum, 2019"),
        Method("awr", "awr", "AWRConfig", "none", "Peng et al., 2019"),
        Method("bcq", "bcq", "BCQConfig", "none", "Fujimoto, Meger and Precup, 2019"),
        Method("cql", "cql", "CQLConfig", "none", "Kumar et al., 2020"),
        Method("iql", "iql", "IQLConfig", "none", "Kostrikov, Nair and Levine, 2022"),
        Method("rebrac", "rebrac", "ReBRACConfig", "none", "Tarasov et al., 2023"),
        Method("pic", "pic", "PICConfig", "l2", "ICLR 2026: peer-influenced constraint"),
        Method("prdc", "prdc", "PRDCConfig", "l2", "Ran et al., 2023"),
    )
}


def _discrete(name: str, kind: str, paper: str, stands_for: str, distance: DistanceKind = "none") -> Method:
    """A method for discrete actions; its module is what stands before any hyphen of its name."""
    module, full_name = f"discrete.{name.split('-')[0]}", f"discrete-{name}"
    return Method(full_name, module, kind, distance, paper, actions="discrete", stands_for=stands_for)


DISCRETE_METHODS = {
    method.name: method
    for method in (
        _discrete("ploff", "PloffConfig", "Dadashi et al., 2021, for choices", "ploff", "learned"),
        _discrete("ploff-l2", "PloffConfig", "the same with distances in plain L2", "ploff-l2", "l2"),
        _discrete("dqn", "DQNConfig", "van Hasselt et al., 2016: no bonus", "td3-off"),
        _discrete("bc", "BCConfig", "behavioral cloning", "bc"),
        _discrete("bcq", "BCQConfig", "Fujimoto et al., 2019", "bcq"),
        _discrete("cql", "CQLConfig", "Kumar et al., 2020", "cql"),
        _discrete("iql", "IQLConfig", "Kostrikov, Nair and Levine, 2022", "iql"),
    )
}


def get_method(name: str) -> Method:
    """The method of that name."""
    known = METHODS | DISCRETE_METHODS
    if name not in known:
        raise UnknownNameError("method", name, known)
    return known[name]


def method_for(name: str, data: Transitions) -> Method:
    """The method of that name for a log's actions: where they are discrete, the one that stands for it."""
    method, kind = get_method(name), data.action_space.kind
    if method.actions == kind:
        return method
    own = DISCRETE_METHODS if kind == "discrete" else METHODS
    found = next((other for other in own.values() if name in (other.stands_for, f"discrete-{other.name}")), None)
    if found is None:
        what = f"{data.action_space.n} discrete actions" if kind == "discrete" else "continuous actions"
        raise PloffError(f"{data.origin.name} has {what}, {name} learns no such; {', '.join(own)} do")
    return found
