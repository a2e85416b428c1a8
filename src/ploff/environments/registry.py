"""Environments by name: seven of D4RL's, those that a program registers, and every Gymnasium id."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import gymnasium as gym

from ploff.actions import ActionSpace
from ploff.environments import adroit, locomotion
from ploff.environments.distraction import OPTION, Distracted, read_distraction
from ploff.environments.locomotion import LOCOMOTION_TASKS
from ploff.environments.warnings_filter import quiet_mujoco
from ploff.tasks import TASKS
from ploff.utils.errors import PloffError, UnknownNameError, require

Physics = Literal["d4rl", "gymnasium"]
DISPLAY = ("render_mode", "width", "height", "camera_id", "camera_name", "default_camera_config")
FREE_OPTIONS = frozenset([*DISPLAY, "max_geom", "visual_options", "max_episode_steps"])  # change no dynamics


@runtime_checkable
class Maker(Protocol):
    """Makes an environment; what a caller passes to `make` beside name and physics arrives as keywords."""

    def __call__(self, **options: Any) -> gym.Env:
        """One new environment."""
        ...


_REGISTERED: dict[str, Maker] = {}
_GYMNASIUMS = frozenset(gym.registry)  # before a program adds its own


def names() -> list[str]:
    """The names that `make` knows beside Gymnasium's ids."""
    return [*TASKS, *_REGISTERED]


def register(name: str, maker: Maker | Callable[..., gym.Env]) -> None:
    """Makes an environment of your own known by name, in this process."""
    if name in TASKS:
        raise PloffError(f"{name!r} is one of D4RL's environments; register yours under another name")
    _REGISTERED[name] = maker


def known_everywhere(name: str) -> bool:
    """Whether another process can make it, too: not what this program registered, here or with Gymnasium."""
    if name in _REGISTERED:
        return False
    if name in names() or ":" in name:
        return True
    place = str(gym.registry[name].entry_point) if name in gym.registry else ""
    return place.startswith("gymnasium_robotics") or (name in _GYMNASIUMS and place.startswith("gymnasium"))


def refuse_code(source: str, name: str, options: Mapping[str, Any]) -> None:
    """Refuses an environment of a file's choice that would import a module or open a file: people may ask for that.

    Args:
      source: what names it: a log, a policy's file.
      name: the environment.
      options: keywords that it is made with.
    """
    if ":" in name:
        raise PloffError(
            f"{source} names the environment {name!r}, whose making imports a module; if you trust it, "
            f"give --environment {name}"
        )
    if option := option_of_a_file(options):
        raise PloffError(
            f"{source} makes its environment with {option}={options[option]!r}, which names a file or a module; "
            f"--environment {name} makes it without"
        )


def option_of_a_file(options: Mapping[str, Any]) -> str | None:
    """The first keyword whose value names a file or a module."""
    named = (option for option, value in options.items() if any(set(text) & set("/\\:") for text in _texts(value)))
    return next(named, None)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def make(name: str, physics: Physics = "d4rl", **options: Any) -> gym.Env:
    """Makes an environment.

    Args:
      name: one of `names()`, or any Gymnasium id.
      physics: for D4RL's environments, whose behavior they have: "d4rl", that of the logged data, or
        "gymnasium", that of the installed releases. A Gymnasium id, and what a program registered, is made
        as it is.
      **options: passed on. With physics="d4rl" a locomotion task takes rendering options and
        `max_episode_steps` alone. `distraction` adds what `ploff.environments.distraction` describes.
    """
    if physics not in ("d4rl", "gymnasium"):
        raise UnknownNameError("physics", physics, ("d4rl", "gymnasium"))
    distraction = options.pop(OPTION, None)
    if distraction is not None:
        return Distracted(make(name, physics, **options), read_distraction(distraction))
    try:
        return _make(name, physics, options)
    except TypeError as error:
        if not options:
            raise
        raise PloffError(f"{name} cannot be made with {', '.join(options)}: {error}") from error


def _make(name: str, physics: Physics, options: dict[str, Any]) -> gym.Env:
    if name in _REGISTERED:
        return _REGISTERED[name](**options)
    if name in LOCOMOTION_TASKS:
        return _make_locomotion(name, physics, options)
    if name in TASKS:
        if physics == "d4rl":
            return adroit.make_d4rl(name, **options)
        return gym.make(adroit.gymnasium_id(name), disable_env_checker=True, **options)
    return _make_by_id(name, options)


def action_space_of(env: gym.Env) -> ActionSpace:
    """An environment's actions as the rest of ploff describes them."""
    space = env.action_space
    if isinstance(space, gym.spaces.Discrete) and space.start == 0:
        return ActionSpace.discrete(int(space.n))
    if isinstance(space, gym.spaces.Box) and len(space.shape) == 1:
        return ActionSpace.box(space.low, space.high)
    raise PloffError(f"actions must be a vector in a box or one of n choices from 0; this environment has {space}")


def _make_locomotion(name: str, physics: Physics, options: dict[str, Any]) -> gym.Env:
    if physics == "gymnasium":
        with quiet_mujoco():
            return gym.make(LOCOMOTION_TASKS[name].gymnasium_id, disable_env_checker=True, **options)
    if foreign := sorted(set(options) - FREE_OPTIONS):
        raise PloffError(
            f"{name} with physics='d4rl' is D4RL's task and has no option {foreign[0]!r}; "
            "physics='gymnasium' takes all of Gymnasium's"
        )
    return locomotion.make_d4rl(name, **options)


def _make_by_id(name: str, options: dict[str, Any]) -> gym.Env:
    if name not in gym.registry and ":" not in name:
        _register_robotics_if_installed()
    if name not in gym.registry and ":" not in name:
        raise UnknownNameError("environment", name, [*names(), *gym.registry])
    needs_mujoco = ":" not in name and "mujoco" in str(gym.spec(name).entry_point)
    if needs_mujoco:
        require("mujoco", extra="mujoco")
    try:
        with quiet_mujoco() if needs_mujoco else contextlib.nullcontext():
            return gym.make(name, disable_env_checker=True, **options)
    except (gym.error.Error, ImportError) as error:
        raise PloffError(f"Gymnasium cannot make {name!r}: {error}") from error


def _register_robotics_if_installed() -> None:
    try:
        adroit.register_robotics()
    except PloffError:
        return
