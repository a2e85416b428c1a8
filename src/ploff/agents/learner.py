"""A network with its optimiser, and the two steps that every method takes: down a loss, and towards a target.

Shapes: B rows, S observation.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.agents.actor_critic import Layers, Network
from ploff.transitions import Batch

Learned = TypeVar("Learned")


class Learner(eqx.Module, Generic[Learned]):
    """Something that is learned (a network, a multiplier), and the state of what moves it."""

    network: Learned
    optimiser: optax.OptState

    @classmethod
    def init(cls, network: Learned, method: optax.GradientTransformation) -> "Learner[Learned]":
        """The network as it is, and a fresh optimiser."""
        return cls(network, method.init(eqx.filter(network, eqx.is_array)))

    def descend(
        self, method: optax.GradientTransformation, loss: Callable[[Learned], tuple[Array, Any]]
    ) -> tuple["Learner[Learned]", Float[Array, ""], Any]:
        """One step down a loss, which comes with anything that is to be told of it; then both are returned."""
        (value, told), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(self.network)
        changes, optimiser = method.update(gradient, self.optimiser)
        return Learner(eqx.apply_updates(self.network, changes), optimiser), value, told


class StateValue(Network):
    """V(s)."""

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], hidden: Layers) -> "StateValue":
        """A value for observations of `shape`."""
        return cls.fresh(key, shape, hidden, 1)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "*B"]:
        """V(s)."""
        return self.outputs(observations)[..., 0]


def bootstrapped(batch: Batch, value: Float[Array, "B"], discount: float) -> Float[Array, "B"]:
    """The target y = r + γ v(s'), and r alone where the process ended; no gradient flows through it."""
    return jax.lax.stop_gradient(batch.rewards + jnp.where(batch.terminals, 0.0, discount * value))
