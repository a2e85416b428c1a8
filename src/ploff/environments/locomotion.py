"""Hopper, HalfCheetah and Walker2d as D4RL's data knows them, on a current MuJoCo.

Before version 2.1.1 MuJoCo gave a capsule of radius r and half-length h the mass and inertia of a cylinder
of length L = 2h + r (half-length h + r/2) instead of its own:

    m = ρ π r² L      I_across = m (3r² + L²)/12      I_along = m r²/2

D4RL's logs obey the older bodies. Their tasks, with dt the time of one step and a clipped to [−1, 1]:

    reward = (x′ − x)/dt + c − w ‖a‖²       c = 1, also in the step of the fall (HalfCheetah: 0)
    observation = (q without x, q̇), q̇ clipped to ±10 (HalfCheetah: not clipped)

The model, the initial states and the pictures are Gymnasium's. The step is written out here because
Gymnasium's current version pays no alive bonus in the step of a fall, and because it spends two fifths of
its time in Python, which keeps environments on two threads waiting for each other.

Shapes: G geoms, K bodies that have any.
"""

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np

from ploff.environments.quiet import quiet_mujoco
from ploff.errors import PloffError, require

HORIZON = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
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


TASKS = {
    "hopper": Task(
        gymnasium_id="Hopper-v5",
        control_cost=1e-3,
        alive_bonus=1.0,
        velocity_bound=10.0,
        height=(0.7, np.inf),
        pitch=0.2,
        state_bound=100.0,
    ),
    "halfcheetah": Task(gymnasium_id="HalfCheetah-v5", control_cost=0.1, total_mass=14.0),
    "walker2d": Task(
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

    def __init__(self, env: gym.Env, task: Task):
        super().__init__(env)
        self._task = task
        self._mujoco = require("mujoco", extra="mujoco")
        base: Any = env.unwrapped
        restore_capsule_inertia(base.model, base.data, task.total_mass)
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


def make_d4rl(name: str, *, max_episode_steps: int = HORIZON, **rendering: Any) -> gym.Env:
    """The D4RL task of that name; `rendering` goes to Gymnasium."""
    require("mujoco", extra="mujoco")
    task = TASKS[name]
    model = {} if task.model_file is None else {"xml_file": task.model_file}
    with quiet_mujoco():
        base = gym.make(
            task.gymnasium_id, max_episode_steps=-1, disable_env_checker=True, **model, **rendering
        ).unwrapped
    limited = gym.wrappers.TimeLimit(D4RLLocomotion(base, task), max_episode_steps)
    return gym.wrappers.OrderEnforcing(limited)


def restore_capsule_inertia(model: Any, data: Any, total_mass: float | None = None) -> None:
    """Gives every capsule of a MuJoCo model the mass and inertia that MuJoCo had before 2.1.1.

    Args:
      model: an MjModel whose moving geoms are all capsules; changed in place.
      data: an MjData of it, reset by this.
      total_mass: what the bodies are scaled to weigh together; None leaves each material's density.
    """
    mujoco = require("mujoco", extra="mujoco")
    moving = np.flatnonzero(model.geom_bodyid > 0)
    if np.any(model.geom_type[moving] != mujoco.mjtGeom.mjGEOM_CAPSULE):
        raise PloffError("the inertia of old capsules is known, that of the model's other shapes is not")
    bodies, owner = np.unique(model.geom_bodyid[moving], return_inverse=True)
    masses, inertias = _old_capsules(model, moving, bodies, owner, mujoco)
    mass, centre, inertia = _composite(masses, model.geom_pos[moving], inertias, owner)
    scale = 1.0 if total_mass is None else total_mass / mass.sum()

    moments, axes = np.linalg.eigh(inertia * scale)
    moments, axes = moments[:, ::-1], axes[:, :, ::-1].copy()  # MuJoCo orders moments from large to small
    axes[:, :, 2] *= np.sign(np.linalg.det(axes))[:, None]
    model.body_mass[bodies], model.body_inertia[bodies] = mass * scale, moments
    model.body_ipos[bodies] = centre
    for body, frame in zip(bodies, axes, strict=True):
        mujoco.mju_mat2Quat(model.body_iquat[body], frame.ravel())
    # MuJoCo's short cuts for frames that coincide, and its bounding volumes, rest on the frames of before.
    model.body_sameframe[bodies] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    model.geom_sameframe[moving] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    mujoco.mj_setConst(model, data)


def _old_capsules(
    model: Any, geoms: np.ndarray, bodies: np.ndarray, owner: np.ndarray, mujoco: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Masses [G] and inertias [G, 3, 3], about each capsule's centre along the body's axes."""
    radius, half = model.geom_size[geoms, 0], model.geom_size[geoms, 1]
    volume = np.pi * radius**2 * (2 * half + 4 / 3 * radius)
    density = model.body_mass[bodies] / np.bincount(owner, volume)
    length = 2 * half + radius
    mass = density[owner] * np.pi * radius**2 * length
    across, along = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    frames = np.empty((len(geoms), 9))
    for frame, geom in zip(frames, geoms, strict=True):
        mujoco.mju_quat2Mat(frame, model.geom_quat[geom])
    frames = frames.reshape(-1, 3, 3)
    principal = np.stack([across, across, along], axis=-1)
    return mass, np.einsum("gij,gj,gkj->gik", frames, principal, frames)


def _composite(
    masses: np.ndarray, centres: np.ndarray, inertias: np.ndarray, owner: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass [K], centre [K, 3] and inertia [K, 3, 3] of bodies made of several geoms (Steiner's theorem)."""
    count = owner.max() + 1
    mass = np.bincount(owner, masses)
    centre = np.zeros((count, 3))
    np.add.at(centre, owner, masses[:, None] * centres)
    centre /= mass[:, None]
    arm = centres - centre[owner]
    squared = np.einsum("gi,gi->g", arm, arm)
    steiner = squared[:, None, None] * np.eye(3) - np.einsum("gi,gj->gij", arm, arm)
    inertia = np.zeros((count, 3, 3))
    np.add.at(inertia, owner, inertias + masses[:, None, None] * steiner)
    return mass, centre, inertia
