"""The methods, one file each, behind the same three functions.

    state = init(key, log, config)
    state, info = update(state, log, key, config)       # pure: compiled and scanned
    actions = act(state, observations)                  # the policy, in training units

A method names its configuration and what it needs beside the log: nothing, distances in the learned metric, or
distances in plain L2 (`evidence`). `METHODS` is the table that `ploff train --method` chooses from; a method's own file
is loaded when it is asked for.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any, Literal

from ploff.errors import UnknownNameError

EvidenceKind = Literal["none", "learned", "l2"]


@dataclasses.dataclass(frozen=True)
class Method:
    """A method by its name: where its functions are, and its settings."""

    name: str
    module: str  # under ploff.agents
    config_class: str
    evidence: EvidenceKind = "none"

    def config(self, *, paper: bool = False, **changes: Any) -> Any:
        """The configuration with its defaults, or as the paper printed it if it did, and some settings changed."""
        kind = self.config_type
        make = kind.paper if paper and hasattr(kind, "paper") else kind
        known = {field.name for field in dataclasses.fields(kind)}
        for name in changes:
            if name not in known:
                raise UnknownNameError(f"setting of {self.name}", name, known)
        return make(**changes)

    @property
    def config_type(self) -> Any:
        """The dataclass of its settings."""
        return getattr(self._file(), self.config_class)

    @property
    def init(self) -> Callable[..., Any]:
        """See the package's text."""
        return self._file().init

    @property
    def act(self) -> Callable[..., Any]:
        """See the package's text."""
        return self._file().act

    def update(self, config: Any) -> Callable[..., Any]:
        """(state, log, key) to (state, info): one object for each configuration, so that it is compiled once."""
        return _update(self.module, config)

    def _file(self) -> Any:
        return importlib.import_module(f"ploff.agents.{self.module}")


@functools.lru_cache(maxsize=64)
def _update(module: str, config: Any) -> Callable[..., Any]:
    update = importlib.import_module(f"ploff.agents.{module}").update
    return lambda state, log, key: update(state, log, key, config)


METHODS = {
    method.name: method
    for method in (
        Method("ploff", "ploff", "PloffConfig", "learned"),
        Method("ploff-l2", "ploff", "PloffConfig", "l2"),
        Method("td3-off", "td3", "TD3Config"),
        Method("bc", "bc", "BCConfig"),
        Method("td3-bc", "td3_bc", "TD3BCConfig"),
        Method("bear", "bear", "BEARConfig"),
        Method("brac-v", "brac_v", "BRACvConfig"),
        Method("awr", "awr", "AWRConfig"),
        Method("bcq", "bcq", "BCQConfig"),
        Method("cql", "cql", "CQLConfig"),
        Method("iql", "iql", "IQLConfig"),
        Method("rebrac", "rebrac", "ReBRACConfig"),
        Method("prdc", "prdc", "PRDCConfig", "l2"),
    )
}


def method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise UnknownNameError("method", name, METHODS)
    return METHODS[name]
