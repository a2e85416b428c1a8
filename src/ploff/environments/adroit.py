"""Pen, hammer, door and relocate as D4RL's data knows them, on a current gymnasium-robotics.

Four things differ from gymnasium-robotics' own. The dense reward of hammer, door and relocate holds

    −0.1 ‖palm − object‖

in D4RL; releases 1.2.1 to 1.4.2 of gymnasium-robotics add it instead. Which one is installed is measured,
not looked up: the palm's site takes no part in the dynamics, so moving it moves this term alone. A dropped
pen ends the episode. The horizons are D4RL's. And bodies touch as they did in an older MuJoCo.
"""

import functools
from typing import Any

import gymnasium as gym
import numpy as np

from ploff.environments.mujoco_compat import restore_contact_margins
from ploff.environments.warnings_filter import quiet_import
from ploff.tasks import TASKS
from ploff.utils.errors import PloffError, require

DROPPED = 0.075  # height below which the pen has been dropped
PALM_WEIGHT = -0.1  # D4RL's


def gymnasium_id(name: str) -> str:
    """The id under which the installed gymnasium-robotics has the task."""
    register_robotics()
    stem = f"AdroitHand{name.capitalize()}"
    known = [f"{stem}-{version}" for version in ("v1", "v2") if f"{stem}-{version}" in gym.registry]
    if not known:
        raise PloffError(f"gymnasium-robotics has neither {stem}-v1 nor -v2; releases 1.3 and 1.4 do")
    return known[0]


def register_robotics() -> None:
    """Makes gymnasium-robotics' environments known to Gymnasium."""
    with quiet_import():
        gym.register_envs(require("gymnasium_robotics", extra="robotics"))


class D4RLAdroit(gym.Wrapper):
    """One of D4RL's hand tasks around gymnasium-robotics' own."""

    def __init__(self, env: gym.Env, name: str):
        super().__init__(env)
        self._ends_on_drop = name == "pen"
        base: Any = env.unwrapped
        restore_contact_margins(base.model)
        dense = not base.sparse_reward
        self._missing = PALM_WEIGHT - palm_weight(name) if dense and not self._ends_on_drop else 0.0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Applies one action; see the module's text."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        base: Any = self.unwrapped
        reward = float(reward)
        if self._missing:
            reward += self._missing * palm_distance(base)
        if self._ends_on_drop:
            terminated = terminated or bool(base.data.xpos[base.obj_body_id][2] < DROPPED)
        return observation, reward, terminated, truncated, info


def make_d4rl(name: str, *, max_episode_steps: int | None = None, **options: Any) -> gym.Env:
    """The D4RL task of that name; `options` go to gymnasium-robotics."""
    base = gym.make(gymnasium_id(name), max_episode_steps=-1, disable_env_checker=True, **options).unwrapped
    limited = gym.wrappers.TimeLimit(D4RLAdroit(base, name), max_episode_steps or TASKS[name].horizon)
    return gym.wrappers.OrderEnforcing(limited)


def palm_distance(base: Any) -> float:
    """‖palm − object‖, the object being the door's handle, the hammer or the ball."""
    if hasattr(base, "handle_site_id"):
        thing = base.data.site_xpos[base.handle_site_id]
    else:
        thing = base.data.xpos[base.obj_body_id]
    return float(np.linalg.norm(base.data.site_xpos[_palm(base)] - thing))


@functools.cache
def palm_weight(name: str) -> float:
    """The weight of the palm's distance in the installed release, from two steps that differ in it alone."""
    env = gym.make(gymnasium_id(name), disable_env_checker=True)
    base: Any = env.unwrapped
    still = np.zeros(env.action_space.shape or (), np.float32)
    rewards, distances = [], []
    for shift in (0.0, 0.5):
        env.reset(seed=0)
        base.model.site_pos[_palm(base), 2] += shift
        rewards.append(float(env.step(still)[1]))
        distances.append(palm_distance(base))
    env.close()
    return round(float(np.diff(rewards)[0] / np.diff(distances)[0]), 6)


def _palm(base: Any) -> int:
    return base.grasp_site_id if hasattr(base, "grasp_site_id") else base.S_grasp_site_id
