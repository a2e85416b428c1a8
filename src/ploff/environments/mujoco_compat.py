"""What MuJoCo computed otherwise when D4RL's data was made, put back into a model.

Capsules. Before version 2.1.1 a capsule of radius r and half-length h had the mass and inertia of a cylinder of
length L = 2h + r (half-length h + r/2) instead of its own:

    m = ρ π r² L      I_across = m (3r² + L²)/12      I_along = m r²/2

Contacts. Two geoms touched from the larger of their margins on; now it is from the sum of both. D4RL's logged steps
in contact are reproduced with the larger, to the last digits of single precision, and not with the sum.

Shapes: G geoms, K bodies that have any.
"""

import functools
from typing import Any

import numpy as np

from ploff.utils.errors import PloffError, require


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
    mass, center, inertia = _composite(masses, model.geom_pos[moving], inertias, owner)
    scale = 1.0 if total_mass is None else total_mass / mass.sum()

    moments, axes = np.linalg.eigh(inertia * scale)
    moments, axes = moments[:, ::-1], axes[:, :, ::-1].copy()  # MuJoCo orders moments from large to small
    axes[:, :, 2] *= np.sign(np.linalg.det(axes))[:, None]
    model.body_mass[bodies], model.body_inertia[bodies] = mass * scale, moments
    model.body_ipos[bodies] = center
    for body, frame in zip(bodies, axes, strict=True):
        mujoco.mju_mat2Quat(model.body_iquat[body], frame.ravel())
    # MuJoCo's short cuts for frames that coincide, and its bounding volumes, rest on the frames of before.
    model.body_sameframe[bodies] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    model.geom_sameframe[moving] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    mujoco.mj_setConst(model, data)


def restore_contact_margins(model: Any) -> None:
    """Lets every pair of geoms touch from the larger of their margins on; changes the model in place."""
    touching = (model.geom_contype | model.geom_conaffinity) > 0
    largest = model.geom_margin[touching].max()
    if largest == 0 or not margins_add_up():
        return
    if np.count_nonzero(model.geom_margin[touching] < largest) > 1:
        raise PloffError("sums of margins cannot stand for the larger one in a model with several margins")
    # All pairs now add up to the largest; the one geom with less has no partner with less.
    model.geom_margin[touching] = largest / 2


@functools.cache
def margins_add_up() -> bool:
    """Whether the installed MuJoCo adds margins: tried on two spheres, further apart than either's margin."""
    mujoco = require("mujoco", extra="mujoco")
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><geom size="1" margin="0.1"/>
        <body pos="2.15 0 0"><freejoint/><geom size="1" margin="0.1"/></body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return bool(data.ncon > 0)


def _old_capsules(
    model: Any, geoms: np.ndarray, bodies: np.ndarray, owner: np.ndarray, mujoco: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Masses [G] and inertias [G, 3, 3], about each capsule's center along the body's axes."""
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
    masses: np.ndarray, centers: np.ndarray, inertias: np.ndarray, owner: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass [K], center [K, 3] and inertia [K, 3, 3] of bodies made of several geoms (Steiner's theorem)."""
    count = owner.max() + 1
    mass = np.bincount(owner, masses)
    center = np.zeros((count, 3))
    np.add.at(center, owner, masses[:, None] * centers)
    center /= mass[:, None]
    arm = centers - center[owner]
    squared = np.einsum("gi,gi->g", arm, arm)
    steiner = squared[:, None, None] * np.eye(3) - np.einsum("gi,gj->gij", arm, arm)
    inertia = np.zeros((count, 3, 3))
    np.add.at(inertia, owner, inertias + masses[:, None, None] * steiner)
    return mass, center, inertia
