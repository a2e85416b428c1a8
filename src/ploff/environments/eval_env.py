"""Where policies are tried: what the log or the user names, made once to see that it fits."""

import dataclasses
import json
import warnings
from typing import Any

from ploff import environments
from ploff.actions import ActionSpace
from ploff.environments import registry
from ploff.environments.env_cache import cached_envs
from ploff.transitions import Transitions
from ploff.utils.errors import PloffError, PloffWarning


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalEnv:
    """Where a policy is tried."""

    environment: str
    physics: environments.Physics = "d4rl"
    references: environments.References | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # for `environments.make`


def find_eval_env(data: Transitions, environment: str | None, physics: environments.Physics | None) -> EvalEnv | None:
    """Where policies are evaluated.

    Args:
      data: the log, which may say where it comes from.
      environment: a name that `ploff.environments.make` knows; None takes the log's own, "none" means nowhere.
      physics: the physics of that environment; None takes the log's.

    Returns:
      The environment; None where the log does not say, or (with a warning) where its own is not to be had.

    Raises:
      PloffError: the environment that was asked for cannot be made, or does not fit the log.
    """
    own = data.origin.environment
    name = own if environment is None else environment
    if name in (None, "none"):
        return None
    default = data.origin.physics if name == own else "d4rl"
    options = json.loads(data.origin.options) if name == own else {}
    if environment is not None and registry.option_of_a_file(options):
        options = {}  # a person has asked for the environment, not for what a file would have it read
    env = EvalEnv(
        environment=name,
        physics=physics or default,
        references=_references(data, name),
        options=options,
    )
    try:
        if environment is None:
            registry.refuse_code(data.origin.name, name, env.options)
        _check_fit(data, env)
    except PloffError as error:
        if environment is not None:
            raise
        warnings.warn(f"policies are not evaluated: {error}", PloffWarning, stacklevel=2)
        return None
    return env


def _references(data: Transitions, name: str) -> environments.References | None:
    if name == data.origin.environment and data.origin.reference_scores:
        return data.origin.reference_scores
    return environments.reference_scores(name) if environments.has_reference(name) else None


def _check_fit(data: Transitions, env: EvalEnv) -> None:
    """Makes the environment once: it must be there, and have the log's observations and actions."""
    with cached_envs(1, env.environment, env.physics, env.options) as (made,):
        shape, space = made.observation_space.shape, environments.action_space_of(made)
    if shape != data.observation_shape or (space.kind, space.width) != (
        data.action_space.kind,
        data.action_space.width,
    ):
        raise PloffError(
            f"{env.environment} has observations {shape} and {_described(space)} actions; the log has "
            f"{data.observation_shape} and {_described(data.action_space)}"
        )


def _described(space: ActionSpace) -> str:
    return f"{space.width} discrete" if space.kind == "discrete" else f"{space.width}"
