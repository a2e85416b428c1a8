"""Networks of the agents: a bounded actor, twin critics, moving averages of them.

Observations come in training units; actions go in and come out in the log's own units, inside their box.

Shapes: B rows, n samples a row, S observation, F features of it, A action, H hidden.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Self, TypeVar

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


class Network(eqx.Module):
    """Hidden layers over an observation, and over what is given beside it."""

    encoder: Callable[[Array], Array]
    body: Body

    @classmethod
    def fresh(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        hidden: Layers,
        outputs: int,
        given: int = 0,
        **own: Any,
    ) -> Self:
        """A network for observations of `shape`; images pass through convolutions first.

        Args:
          key, shape, hidden, outputs: of the network.
          given: how many numbers stand beside an observation.
          **own: what else the class has.
        """
        encoder_key, body_key = jax.random.split(key)
        encoder, width = observation_encoder(encoder_key, shape)
        return cls(encoder, Body.init(body_key, width + given, hidden, outputs), **own)

    def outputs(
        self, observations: Float[Array, "B *S"], given: Float[Array, "*n B A"] | None = None
    ) -> Float[Array, "*n B out"]:
        """Of every sample of what is given, where there are several a row; features are computed once a row."""
        features = self.encoder(observations)
        return self.body(features if given is None else beside(features, given))


def beside(features: Float[Array, "B F"], samples: Float[Array, "*n B A"]) -> Float[Array, "*n B F+A"]:
    """Each sample next to the features of its row."""
    repeated = jnp.broadcast_to(features, (*samples.shape[:-1], features.shape[-1]))
    return jnp.concatenate([repeated, samples], axis=-1)


class Actor(Network):
    """π: a deterministic policy into the box of actions."""

    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: Layers) -> "Actor":
        """An actor for observations of `shape` and actions of `space`."""
        return cls.fresh(key, shape, hidden, space.width, space=space)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
        """π(s), inside the box."""
        return self.space.from_unit(jnp.tanh(self.outputs(observations)))


class Critic(Network):
    """Q(s, a)."""

    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: Layers) -> "Critic":
        """A critic for observations of `shape` and actions of `space`."""
        return cls.fresh(key, shape, hidden, 1, given=space.width, space=space)

    def __call__(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "*n B A"]
    ) -> Float[Array, "*n B"]:
        """Q(s, a), of every sample."""
        return self.outputs(observations, self.space.to_unit(actions))[..., 0]


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
        self, observations: Float[Array, "B *S"], actions: Float[Array, "*n B A"]
    ) -> tuple[Float[Array, "*n B"], Float[Array, "*n B"]]:
        """Both values, of every sample."""
        return self.first(observations, actions), self.second(observations, actions)

    def least(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "*n B A"]
    ) -> Float[Array, "*n B"]:
        """min(Q₁, Q₂)."""
        return jnp.minimum(*self(observations, actions))


def moved(average: Tree, towards: Tree, rate: float | Float[Array, ""]) -> Tree:
    """The moving average, a step of `rate` closer to the networks that it follows."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), average, towards)
