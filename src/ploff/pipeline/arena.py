"""Where policies are tried: what the log or the user names, made once to see that it fits."""

import dataclasses
import json
import warnings
from typing import Any

from ploff import environments
from ploff.environments.pool import borrowed
from ploff.errors import PloffError, PloffWarning
from ploff.progress import console
from ploff.transitions import Transitions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arena:
    """Where a policy is tried."""

    environment: str
    physics: environments.Physics = "d4rl"
    references: environments.References | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # for `environments.make`


def find_arena(
    data: Transitions, environment: str | None, physics: environments.Physics | None, *, quiet: bool
) -> Arena | None:
    """Where to try policies; None if the log does not say, or the environment is not to be had."""
    own = data.origin.environment
    name = own if environment is None else environment
    if name is None and not quiet:
        console.print(
            f"no environment is known for {data.origin.name}: policies are trained and not tried "
            "(--environment names one)",
            highlight=False,
        )
    if name in (None, "none"):
        return None
    default = data.origin.physics if name == own else "d4rl"
    arena = Arena(
        environment=name,
        physics=physics or default,
        references=_references(data, name),
        options=json.loads(data.origin.options) if name == own else {},
    )
    try:
        _check_fit(data, arena)
    except PloffError as error:
        if environment is not None:
            raise
        warnings.warn(f"policies are trained and not tried: {error}", PloffWarning, stacklevel=2)
        return None
    return arena


def _references(data: Transitions, name: str) -> environments.References | None:
    if name == data.origin.environment and data.origin.reference_scores:
        return data.origin.reference_scores
    return environments.reference_scores(name) if environments.has_reference(name) else None


def _check_fit(data: Transitions, arena: Arena) -> None:
    """Makes the environment once: it must be there, and have the log's observations and actions."""
    with borrowed(1, arena.environment, arena.physics, arena.options) as (env,):
        shape, space = env.observation_space.shape, environments.action_space_of(env)
    if shape != data.observation_shape or space.width != data.action_space.width or space.kind != "box":
        raise PloffError(
            f"{arena.environment} has observations {shape} and {space.width} actions; the log has "
            f"{data.observation_shape} and {data.action_space.width}"
        )
