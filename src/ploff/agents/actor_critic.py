"""Networks of the agents: a bounded actor, twin critics, moving averages of them.

Observations come in training units; actions go in and come out in the log's own units, inside their box.

Shapes: B rows, S observation, A action, H hidden.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.networks import Linear, observation_encoder

Tree = TypeVar("Tree")
Activation = Literal["tanh-elu", "relu"]  # tanh in the first layer and elu in the others; relu in all


class Layers(NamedTuple):
    """What lies between a network's inputs and its last layer."""

    widths: tuple[int, ...]
    activation: Activation = "relu"
    norm: bool = False  # layer normalisation before each activation


class LayerNorm(eqx.Module):
    """Each row to mean 0 and deviation 1, then a learned scale and shift."""

    scale: Float[Array, "H"]
    shift: Float[Array, "H"]

    @classmethod
    def init(cls, width: int) -> "LayerNorm":
        """Scale 1, shift 0."""
        return cls(scale=jnp.ones(width), shift=jnp.zeros(width))

    def __call__(self, x: Float[Array, "*B H"]) -> Float[Array, "*B H"]:
        """Normalises the last axis."""
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * self.scale + self.shift


class Body(eqx.Module):
    """Hidden layers before a linear one."""

    layers: tuple[Linear, ...]
    norms: tuple[LayerNorm, ...]
    last: Linear
    activation: Activation = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, inputs: int, hidden: Layers, outputs: int) -> "Body":
        """Fresh layers."""
        sizes = (inputs, *hidden.widths)
        *keys, last = jax.random.split(key, len(sizes))
        return cls(
            layers=tuple(Linear.init(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)),
            norms=tuple(LayerNorm.init(width) for width in hidden.widths) if hidden.norm else (),
            last=Linear.init(last, sizes[-1], outputs),
            activation=hidden.activation,
        )

    def __call__(self, x: Float[Array, "*B in"]) -> Float[Array, "*B out"]:
        """Applies the layers to the last axis."""
        for index, layer in enumerate(self.layers):
            x = layer(x)
            if self.norms:
                x = self.norms[index](x)
            x = self._activated(x, index)
        return self.last(x)

    def _activated(self, x: Float[Array, "*B H"], index: int) -> Float[Array, "*B H"]:
        if self.activation == "relu":
            return jax.nn.relu(x)
        return jnp.tanh(x) if index == 0 else jax.nn.elu(x)


class Actor(eqx.Module):
    """π: a deterministic policy into the box of actions."""

    encoder: Callable[[Array], Array]
    body: Body
    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: Layers) -> "Actor":
        """An actor for observations of `shape`; images pass through convolutions first."""
        encoder_key, body_key = jax.random.split(key)
        encoder, width = observation_encoder(encoder_key, shape)
        return cls(encoder, Body.init(body_key, width, hidden, space.width), space)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
        """π(s), inside the box."""
        return self.space.from_unit(jnp.tanh(self.body(self.encoder(observations))))


class Critic(eqx.Module):
    """Q(s, a)."""

    encoder: Callable[[Array], Array]
    body: Body
    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        space: ActionSpace,
        hidden: Layers,
    ) -> "Critic":
        """A critic for observations of `shape`; images pass through convolutions first."""
        encoder_key, body_key = jax.random.split(key)
        encoder, width = observation_encoder(encoder_key, shape)
        return cls(encoder, Body.init(body_key, width + space.width, hidden, 1), space)

    def __call__(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "*B A"]
    ) -> Float[Array, "*B"]:
        """Q(s, a)."""
        joint = [self.encoder(observations), self.space.to_unit(actions)]
        return self.body(jnp.concatenate(joint, axis=-1))[..., 0]


class Twins(eqx.Module):
    """Two critics with parameters of their own: the smaller of their values is what is believed."""

    first: Critic
    second: Critic

    @classmethod
    def init(cls, key: PRNGKeyArray, *arguments: Any) -> "Twins":
        """Two critics; the arguments are those of `Critic.init`."""
        first, second = jax.random.split(key)
        return cls(Critic.init(first, *arguments), Critic.init(second, *arguments))

    def __call__(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "*B A"]
    ) -> tuple[Float[Array, "*B"], Float[Array, "*B"]]:
        """Both values."""
        return self.first(observations, actions), self.second(observations, actions)

    def least(self, observations: Float[Array, "B *S"], actions: Float[Array, "*B A"]) -> Float[Array, "*B"]:
        """min(Q₁, Q₂)."""
        return jnp.minimum(*self(observations, actions))


def moved(average: Tree, towards: Tree, rate: float | Float[Array, ""]) -> Tree:
    """The moving average, a step of `rate` closer to the networks that it follows."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), average, towards)
