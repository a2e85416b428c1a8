"""Environments that wait for the next evaluation: reading a MuJoCo model takes as long as fifty steps of it.

Only D4RL's seven are kept: it is known that a reset with a seed leaves nothing behind of what was before.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym

from ploff.environments.registry import Physics, make
from ploff.tasks import TASKS

_IDLE: dict[tuple[str, Physics], list[gym.Env]] = {}


@contextlib.contextmanager
def cached_envs(
    count: int, environment: str | Callable[[], gym.Env], physics: Physics, options: dict[str, Any]
) -> Iterator[list[gym.Env]]:
    """Environments for the length of a block; after a failure in it they are not used again."""
    idle = _idle(environment, physics, options)
    envs: list[gym.Env] = []
    try:
        while len(envs) < count:
            envs.append(idle.pop() if idle else _one(environment, physics, options))
        yield envs
    except BaseException:
        _close(envs)
        raise
    if isinstance(environment, str) and _is_kept(environment, options):
        idle.extend(envs)
    else:
        _close(envs)


def _idle(environment: Any, physics: Physics, options: dict[str, Any]) -> list[gym.Env]:
    if not isinstance(environment, str) or not _is_kept(environment, options):
        return []
    return _IDLE.setdefault((environment, physics), [])


def _is_kept(environment: str, options: dict[str, Any]) -> bool:
    return not options and (environment in TASKS)


def _one(environment: str | Callable[[], gym.Env], physics: Physics, options: dict[str, Any]) -> gym.Env:
    return make(environment, physics, **options) if isinstance(environment, str) else environment()


def _close(envs: list[gym.Env]) -> None:
    for env in envs:
        env.close()
