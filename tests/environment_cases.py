"""Environments that the tests share: D4RL's by name, and one whose returns are known beforehand."""

import os
import pathlib
from typing import Any

import gymnasium as gym
import numpy as np

from ploff import environments

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("PLOFF_SHARED_DATA", ROOT.parent / "shared" / "data"))
LOCOMOTION = ["hopper", "halfcheetah", "walker2d"]
D4RL = [*LOCOMOTION, "pen", "hammer", "door", "relocate"]


def make(*arguments: Any, **options: Any) -> Any:
    """An environment whose MuJoCo attributes the type checker does not know."""
    return environments.make(*arguments, **options)


class Countdown(gym.Env):
    """Lasts as many steps as its seed modulo 7, plus 1; pays the action's first entry."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, fail_at: int | None = None, cut: bool = False):
        self.fail_at, self.cut, self.resets = fail_at, cut, 0

    def reset(self, *, seed: int | None = None, options: Any = None):
        assert seed is not None
        self.left, self.taken, self.resets = seed % 7 + 1, 0, self.resets + 1
        return self._observe(), {}

    def step(self, action: Any):
        self.taken, self.left = self.taken + 1, self.left - 1
        if self.taken == self.fail_at:
            raise RuntimeError("the motor burnt out")
        over = self.left == 0
        return self._observe(), float(action[0]), over and not self.cut, over and self.cut, {}

    def _observe(self):
        return np.array([self.left, self.taken], np.float64)


def half(observations):
    return np.full((len(observations), 1), 0.5)
