"""Hopper, HalfCheetah and Walker2d as D4RL's data knows them, on a current MuJoCo.

The bodies and contacts are those of `ploff.environments.mujoco_compat`. The tasks, with dt the time of one step
and a clipped to [−1, 1]:

    reward = (x′ − x)/dt + c − w ‖a‖²       c = 1, also in the step of the fall (HalfCheetah: 0)
    observation = (q without x, q̇), q̇ clipped to ±10 (HalfCheetah: not clipped)

The model, the initial states and the pictures are Gymnasium's. The step is written out here because
Gymnasium's current version pays no alive bonus in the step of a fall, and because it spends two fifths of
its time in Python, which keeps environments on two threads waiting for each other.
"""

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np

from ploff.environments.mujoco_compat import restore_capsule_inertia, restore_contact_margins
from ploff.environments.warnings_filter import quiet_mujoco
from ploff.tasks import TASKS
from ploff.utils.errors import require


@dataclasses.dataclass(frozen=True, kw_only=True)
class LocomotionTask:
    """What sets one locomotion task apart."""

    gymnasium_id: str
    control_cost: float  # w
    alive_bonus: float = 0.0  # c
    velocity_bound: float | None = None  # observed velocities are clipped here
    height: tuple[float, float] | None = None  # outside, the episode ends; None: it never does
    pitch: float = np.inf  # bound on the torso's angle
    state_bound: float = np.inf  # bound on every coordinate but x and height
    total_mass: float | None = None
    model_file: str | None = None  # where D4RL's model is not the one of the Gymnasium id


LOCOMOTION_TASKS = {
    "hopper": LocomotionTask(
        gymnasium_id="Hopper-v5",
        control_cost=1e-3,
        alive_bonus=1.0,
        velocity_bound=10.0,
        height=(0.7, np.inf),
        pitch=0.2,
        state_bound=100.0,
    ),
    "halfcheetah": LocomotionTask(gymnasium_id="HalfCheetah-v5", control_cost=0.1, total_mass=14.0),
    "walker2d": LocomotionTask(
        gymnasium_id="Walker2d-v5",
        control_cost=1e-3,
        alive_bonus=1.0,
        velocity_bound=10.0,
        height=(0.8, 2.0),
        pitch=1.0,
        model_file="walker2d.xml",  # its feet differ in friction, as D4RL's do; v5's own are alike
    ),
}


class D4RLLocomotion(gym.Wrapper):
    """One of D4RL's locomotion tasks around a Gymnasium environment that brings its model."""

    def __init__(self, env: gym.Env, task: LocomotionTask):
        super().__init__(env)
        self._task = task
        self._mujoco = require("mujoco", extra="mujoco")
        base: Any = env.unwrapped
        restore_capsule_inertia(base.model, base.data, task.total_mass)
        restore_contact_margins(base.model)
        self._model, self._data, self._frames = base.model, base.data, base.frame_skip
        self._seconds = float(base.dt)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Applies one action; see the module's text."""
        task, data = self._task, self._data
        action = np.asarray(action, np.float64).clip(-1.0, 1.0)
        before = float(data.qpos[0])
        data.ctrl[:] = action
        self._mujoco.mj_step(self._model, data, nstep=self._frames)
        after = float(data.qpos[0])
        reward = (after - before) / self._seconds + task.alive_bonus
        reward -= task.control_cost * float(action @ action)
        if self.render_mode == "human":
            self.render()
        return self._observe(), reward, self._fell(), False, {"x_position": after}

    def _observe(self) -> np.ndarray:
        data, bound = self._data, self._task.velocity_bound
        velocities = data.qvel if bound is None else data.qvel.clip(-bound, bound)
        return np.concatenate((data.qpos[1:], velocities))

    def _fell(self) -> bool:
        task, data = self._task, self._data
        if task.height is None:
            return False
        height, pitch = float(data.qpos[1]), float(data.qpos[2])
        stands = task.height[0] < height < task.height[1] and abs(pitch) < task.pitch
        if stands and task.state_bound < np.inf:
            stands = bool(np.abs(data.qpos[2:]).max() < task.state_bound) and bool(
                np.abs(data.qvel).max() < task.state_bound
            )
        return not stands


def make_d4rl(name: str, *, max_episode_steps: int | None = None, **rendering: Any) -> gym.Env:
    """The D4RL task of that name; `rendering` goes to Gymnasium."""
    require("mujoco", extra="mujoco")
    task = LOCOMOTION_TASKS[name]
    model = {} if task.model_file is None else {"xml_file": task.model_file}
    with quiet_mujoco():
        base = gym.make(
            task.gymnasium_id, max_episode_steps=-1, disable_env_checker=True, **model, **rendering
        ).unwrapped
    limited = gym.wrappers.TimeLimit(D4RLLocomotion(base, task), max_episode_steps or TASKS[name].horizon)
    return gym.wrappers.OrderEnforcing(limited)
