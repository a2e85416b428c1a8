"""A learned policy as a small file that needs neither its dataset nor its run.

The file holds what the policy reads of the learner's state, and no more: critics, averages and optimisers stay behind,
unless the method acts through them. Beside the arrays stands what it takes to build them again: the method with its
settings, the kinds of observations and actions, and the units.
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ploff import agents, storage
from ploff.actions import ActionSpace
from ploff.agents.log import Log
from ploff.errors import PloffError
from ploff.transitions import Affine, Transitions

FORMAT = "ploff policy 2"
FILE = "policy.eqx"


class Policy(eqx.Module):
    """From observations [B, …] in the environment's own units to actions [B, A] in its own."""

    state: Any  # what `act` reads; the rest is None
    units: Affine  # from the environment's observations to those that were trained on
    act: Callable[[Any, Array], Array] = eqx.field(static=True)
    kept: tuple[int, ...] = eqx.field(static=True)  # which of the state's arrays those are
    shape: tuple[int, ...] = eqx.field(static=True)  # of one observation

    def __call__(self, observations: Float[Any, "B *S"]) -> Float[Array, "B A"]:
        """The actions; a pure function, for use inside or outside jit."""
        if tuple(observations.shape[1:]) != self.shape:
            raise PloffError(
                f"this policy takes observations of shape {self.shape}, got {tuple(observations.shape[1:])}"
            )
        return self.act(self.state, self.units.apply(jnp.asarray(observations, jnp.float32)))


def policy_of(
    act: Callable[[Any, Array], Array], state: Any, shape: tuple[int, ...], units: Affine
) -> Policy:
    """The policy of a learner's state, for observations of `shape` that are trained on in `units`."""
    leaves, structure, static = _parted(state, eqx.is_array)
    kept = _used(act, leaves, structure, static, shape)
    trimmed = _rebuilt({place: leaves[place] for place in kept}, structure, static)
    return Policy(trimmed, jax.tree.map(jnp.asarray, units), act, kept, shape)


def save_policy(
    path: str | os.PathLike[str], policy: Policy, space: ActionSpace, method: str, config: Any, **about: Any
) -> None:
    """Writes a policy, whole or not at all; `about` is kept beside it."""
    header = {
        "format": FORMAT,
        "method": method,
        "settings": dataclasses.asdict(config),
        "observation_shape": policy.shape,
        "action_space": dataclasses.asdict(space),
        "units": policy.units.to_json(),
        "kept": policy.kept,
        **about,
    }
    storage.save_tree(path, jax.tree.leaves(eqx.filter(policy.state, eqx.is_array)), header)


def load_policy(run: str | os.PathLike[str], seed: int | None = None) -> Policy:
    """The policy of a run folder (its first seed's, unless one is named), of a seed's folder, or of a file."""
    path = find_policy(pathlib.Path(run), seed)
    header = storage.load_header(path)
    if header.get("format") != FORMAT:
        raise PloffError(f"{path} is not a policy that this version reads; train it again")
    method = agents.method(header["method"])
    config = method.config(**storage.as_settings(header["settings"]))
    space = ActionSpace.from_json(header["action_space"])
    shapes = _shapes(header["method"], config, tuple(header["observation_shape"]), space)
    leaves, structure, static = _parted(shapes, _is_shape)
    kept = tuple(header["kept"])
    arrays = storage.load_tree(path, [leaves[place] for place in kept])
    state = _rebuilt(dict(zip(kept, arrays, strict=True)), structure, static)
    units = jax.tree.map(jnp.asarray, Affine.from_json(header["units"]))
    return Policy(state, units, method.act, kept, tuple(header["observation_shape"]))


def find_policy(run: pathlib.Path, seed: int | None = None) -> pathlib.Path:
    """The file that `load_policy` reads."""
    if run.is_file():
        return run
    if not run.is_dir():
        raise PloffError(f"no run folder {run}; `ploff train DATASET --out {run}` makes one")
    if (run / FILE).exists() and seed is None:
        return run / FILE
    found = sorted(run.glob(f"seed-*/{FILE}"), key=lambda path: seed_of(path.parent))
    if not found:
        inside = sorted(str(path.parent.parent) for path in run.glob(f"*/seed-*/{FILE}"))
        remedy = f"name one of {', '.join(dict.fromkeys(inside))}" if inside else "was it trained to its end?"
        raise PloffError(f"no policy in {run}; {remedy}")
    if seed is None:
        return found[0]
    wanted = run / f"seed-{seed}" / FILE
    if wanted not in found:
        raise PloffError(
            f"{run} has no seed {seed}; it has {', '.join(str(seed_of(p.parent)) for p in found)}"
        )
    return wanted


def seed_of(folder: pathlib.Path) -> int:
    """The seed that a folder is named after."""
    number = folder.name.removeprefix("seed-")
    return int(number) if number.isdigit() else -1


def _used(
    act: Callable, leaves: list, structure: Any, static: Any, shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Which arrays of a state the policy reads, from its traced program."""

    def program(leaves: list, observations: Array) -> Array:
        return act(eqx.combine(jax.tree.unflatten(structure, leaves), static), observations)

    traced = jax.make_jaxpr(program)(leaves, jnp.zeros((1, *shape))).jaxpr
    read = {id(value) for equation in traced.eqns for value in equation.invars}
    read |= {id(value) for value in traced.outvars}
    return tuple(place for place in range(len(leaves)) if id(traced.invars[place]) in read)


def _rebuilt(held: dict[int, Any], structure: Any, static: Any) -> Any:
    """A state with the arrays that are held, and None for the others."""
    leaves = [held.get(place) for place in range(structure.num_leaves)]
    return eqx.combine(jax.tree.unflatten(structure, leaves), static)


def _shapes(method: str, config: Any, shape: tuple[int, ...], space: ActionSpace) -> Any:
    """A state of the method with shapes in place of arrays."""
    row = Transitions.from_rows(
        observations=np.zeros((1, *shape), np.float32),
        actions=np.zeros((1, space.width), np.float32),
        rewards=np.zeros(1, np.float32),
        terminals=np.ones(1, bool),
        timeouts=np.zeros(1, bool),
        action_space=space,
    )
    return eqx.filter_eval_shape(agents.method(method).init, jax.random.key(0), Log.of(row), config)


def _parted(state: Any, is_array: Callable[[Any], bool]) -> tuple[list, Any, Any]:
    arrays, static = eqx.partition(state, is_array)
    return *jax.tree.flatten(arrays), static


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)
