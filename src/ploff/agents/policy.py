"""A learned policy, and its small file that needs neither its dataset nor its run.

The file holds the module that acts and no more: critics, targets and optimizers stay behind, unless the method acts
through them. Beside the arrays stands what it takes to build the module again: the method with its settings, the kinds
of observations and actions, and the normalizer.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ploff.actions import ActionSpace
from ploff.agents.base import Method, get_method
from ploff.agents.batches import as_observations, in_batches, is_traced
from ploff.agents.dataset import OfflineDataset
from ploff.training.checkpoint import load_header, load_tree, save_tree
from ploff.transitions import Normalizer, Transitions
from ploff.utils.config import structure, to_plain
from ploff.utils.errors import PloffError

FORMAT = "ploff policy 3"


class Policy(eqx.Module):
    """From observations [B, …] in the environment's own units to actions [B, A] in its own."""

    actor: Callable[[Array], Array]  # from normalized observations to actions
    normalizer: Normalizer
    action_space: ActionSpace = eqx.field(static=True)
    observation_shape: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, method: Method, state: Any, data: Transitions) -> "Policy":
        """The policy of a learner's state; `data` is in the units that it was trained in."""
        normalizer = jax.tree.map(jnp.asarray, data.observation_normalizer)
        return cls(method.policy(state), normalizer, data.action_space, data.observation_shape)

    def __call__(self, observations: Any) -> Float[Array, "B A"]:
        """The actions; a pure function, for use inside or outside jit.

        Outside, rows are checked to be finite numbers, and compiled for few sizes. Inside of a transformation there are
        no values to check: NaN gives NaN.

        Args:
          observations: one row per state, in the environment's own units; an array or a list.
        """
        if not is_traced(self, observations):
            rows = as_observations(observations, self.observation_shape)
            return jnp.asarray(in_batches(functools.partial(_act, self), rows, self.action_space.width))
        if tuple(observations.shape[1:]) != self.observation_shape:
            raise PloffError(
                f"this policy takes observations of shape {self.observation_shape}, got {tuple(observations.shape[1:])}"
            )
        return self.actor(self.normalizer.normalize(jnp.asarray(observations, jnp.float32)))

    # `jax.jit(policy)` asks for these: a policy is itself, whatever another one's arrays hold.

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@eqx.filter_jit
def _act(policy: Policy, observations: Array) -> Array:
    return policy(observations)


def save_policy(path: str | os.PathLike[str], policy: Policy, method: str, config: Any, **about: Any) -> None:
    """Writes a policy, whole or not at all; `about` is kept beside it."""
    header = {
        "format": FORMAT,
        "method": method,
        "settings": to_plain(config),
        "observation_shape": policy.observation_shape,
        "action_space": to_plain(policy.action_space),
        "normalizer": policy.normalizer.to_json(),
        **about,
    }
    save_tree(path, jax.tree.leaves(eqx.filter(policy.actor, eqx.is_array)), header)


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Reads what `save_policy` wrote."""
    header = load_header(path)
    if header.get("format") != FORMAT:
        raise PloffError(f"{path} is not a policy that this version reads; train it again")
    method = get_method(header["method"])
    space = structure(ActionSpace, header["action_space"], "action space")
    shape = tuple(header["observation_shape"])
    normalizer = Normalizer.from_json(header["normalizer"])
    abstract = _abstract_actor(method, method.config(**header["settings"]), normalizer.shape_of(shape), space)
    arrays, static = eqx.partition(abstract, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    leaves, structure_of = jax.tree.flatten(arrays)
    actor = eqx.combine(jax.tree.unflatten(structure_of, load_tree(path, leaves)), static)
    return Policy(actor, jax.tree.map(jnp.asarray, normalizer), space, shape)


def _abstract_actor(method: Method, config: Any, shape: tuple[int, ...], space: ActionSpace) -> Any:
    """The module that acts, with shapes in place of arrays."""
    row = Transitions.from_rows(
        observations=np.zeros((1, *shape), np.float32),
        actions=np.zeros((1, space.width), np.float32),
        rewards=np.zeros(1, np.float32),
        terminals=np.ones(1, bool),
        timeouts=np.zeros(1, bool),
        action_space=space,
    )
    dataset = OfflineDataset.of(row)
    return eqx.filter_eval_shape(lambda key: method.policy(method.init(key, dataset, config)), jax.random.key(0))
