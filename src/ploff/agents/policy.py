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
from jax.core import Tracer
from jaxtyping import Array, Float

from ploff.actions import ActionSpace
from ploff.agents.base import Method, get_method
from ploff.agents.batches import as_observations, in_batches, is_traced
from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete.networks import ChoicePolicy
from ploff.agents.inputs import EpisodePolicy, read_observations
from ploff.legal_actions import check_mask
from ploff.schema import Schema
from ploff.training.checkpoint import load_header, load_tree, save_tree
from ploff.transitions import Normalizer, Transitions
from ploff.utils.config import structure, to_plain
from ploff.utils.errors import PloffError

FORMAT = "ploff policy 3"


class Policy(eqx.Module):
    """From observations [B, …] in the environment's own units to actions [B, A] in its own.

    A policy that was trained on a table also takes its columns by name: a mapping, a list of mappings, or a frame.
    """

    actor: Callable[..., Array]  # from normalized observations to actions
    normalizer: Normalizer
    action_space: ActionSpace = eqx.field(static=True)
    observation_shape: tuple[int, ...] = eqx.field(static=True)
    schema: Schema | None = eqx.field(static=True, default=None)  # the columns of a table that it was trained on

    @classmethod
    def of(cls, method: Method, state: Any, data: Transitions) -> "Policy":
        """The policy of a learner's state; `data` is in the units that it was trained in."""
        normalizer = jax.tree.map(jnp.asarray, data.observation_normalizer)
        return cls(method.policy(state), normalizer, data.action_space, data.observation_shape, data.origin.schema)

    def __call__(self, observations: Any, legal: Any = None) -> Array:
        """The actions; a pure function, for use inside or outside jit.

        Outside, rows are checked to be finite numbers, and compiled for few sizes. Inside of a transformation there are
        no values to check: NaN gives NaN.

        Args:
          observations: one row per decision, in the environment's own units; an array, a list, or columns by name.
          legal: of discrete actions, which may be taken [B, n]; all by default.

        Returns:
          Vectors [B, A] in a box, or the numbers [B] of discrete actions.
        """
        if not is_traced(self, observations, legal):
            return self._compiled("__call__", observations, legal)
        normalized = self._normalized(observations)
        if self.action_space.kind == "box":
            return self.actor(normalized)
        return self._discrete()(normalized, self._mask(legal))

    def probabilities(self, observations: Any, legal: Any = None) -> Float[Array, "B n"]:
        """How likely each discrete action is; 1 for the one that is taken, where nothing is left to chance."""
        if not is_traced(self, observations, legal):
            return self._compiled("probabilities", observations, legal)
        return self._discrete().probabilities(self._normalized(observations), self._mask(legal))

    def scores(self, observations: Any, legal: Any = None) -> Float[Array, "B n"]:
        """What the choice between discrete actions is made by: values, logits, or values with a bonus."""
        if not is_traced(self, observations, legal):
            return self._compiled("scores", observations, legal)
        return self._discrete().scores(self._normalized(observations), self._mask(legal))

    def _compiled(self, answer: str, observations: Any, legal: Any) -> Array:
        """What the method of that name answers to values, which are checked."""
        names = self.schema.components if self.schema else ()
        rows = as_observations(read_observations(observations, self.schema), self.observation_shape, names)
        if legal is None:
            return jnp.asarray(in_batches(functools.partial(_answer, self, answer), rows))
        self._discrete()
        mask = self._mask(legal)
        if len(mask) != len(rows):
            raise PloffError(f"the mask has {len(mask)} rows, the observations have {len(rows)}; one of each per state")
        return jnp.asarray(in_batches(functools.partial(_answer, self, answer), rows, mask))

    def _normalized(self, observations: Any) -> Float[Array, "B *S"]:
        observations = read_observations(observations, self.schema)
        if tuple(observations.shape[1:]) != self.observation_shape:
            raise PloffError(
                f"this policy takes observations of shape {self.observation_shape}, got {tuple(observations.shape[1:])}"
            )
        return self.normalizer.normalize(jnp.asarray(observations, jnp.float32))

    def _discrete(self) -> ChoicePolicy:
        if not isinstance(self.actor, ChoicePolicy):
            raise PloffError("this policy's actions are continuous: they have no probabilities, scores or masks")
        return self.actor

    def _mask(self, legal: Any) -> Any:
        if legal is None or isinstance(legal, Tracer):
            return legal
        return check_mask("the policy's input", np.asarray(legal), self.action_space.n)

    def episode(self) -> EpisodePolicy:
        """The policy for the steps of one episode, by column: it remembers what to hold where a value is missing."""
        return EpisodePolicy(self, self.schema)

    # `jax.jit(policy)` asks for these: a policy is itself, whatever another one's arrays hold.

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@eqx.filter_jit
def _answer(policy: Policy, method: str, *arrays: Array) -> Array:
    return getattr(policy, method)(*arrays)


def save_policy(path: str | os.PathLike[str], policy: Policy, method: str, config: Any, **about: Any) -> None:
    """Writes a policy, whole or not at all; `about` is kept beside it."""
    header = {
        "format": FORMAT,
        "method": method,
        "settings": to_plain(config),
        "observation_shape": policy.observation_shape,
        "action_space": to_plain(policy.action_space),
        "normalizer": policy.normalizer.to_json(),
        "schema": None if policy.schema is None else to_plain(policy.schema),
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
    schema = header.get("schema")
    schema = schema and structure(Schema, schema, "schema")
    return Policy(actor, jax.tree.map(jnp.asarray, normalizer), space, shape, schema)


def _abstract_actor(method: Method, config: Any, shape: tuple[int, ...], space: ActionSpace) -> Any:
    """The module that acts, with shapes in place of arrays."""
    row = Transitions.from_rows(
        observations=np.zeros((1, *shape), np.float32),
        actions=np.zeros((1, space.width), np.float32) if space.kind == "box" else np.zeros(1, np.int32),
        rewards=np.zeros(1, np.float32),
        terminals=np.ones(1, bool),
        timeouts=np.zeros(1, bool),
        action_space=space,
    )
    dataset = OfflineDataset.of(row)
    return eqx.filter_eval_shape(lambda key: method.policy(method.init(key, dataset, config)), jax.random.key(0))
