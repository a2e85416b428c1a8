"""Networks as pytrees of plain arrays. Shapes: B rows, S observation, A action, H hidden, E embedding, n actions.

Weights are stored [in, out], so that a layer is `x @ weight + bias` on a batch of any leading shape.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.errors import PloffError


class Linear(eqx.Module):
    """x W + b; without b where `bias` is None."""

    weight: Float[Array, "in out"]
    bias: Float[Array, "out"] | None

    @classmethod
    def init(
        cls, key: PRNGKeyArray, inputs: int, outputs: int, *, bias: bool = True, fan_in: int | None = None
    ) -> "Linear":
        """Uniform in ±1/√fan_in, biases 0. `fan_in`: the whole input's width, where this layer sees a part of it."""
        limit = 1.0 / jnp.sqrt(fan_in or inputs)
        weight = jax.random.uniform(key, (inputs, outputs), minval=-limit, maxval=limit)
        return cls(weight=weight, bias=jnp.zeros(outputs) if bias else None)

    def __call__(self, x: Float[Array, "*B in"]) -> Float[Array, "*B out"]:
        """Applies the layer to the last axis."""
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


class MLP(eqx.Module):
    """Linear layers with an activation after each, the last one included only if asked for."""

    layers: tuple[Linear, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)
    activate_last: bool = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        sizes: Sequence[int],
        activation: Callable[[Array], Array] = jax.nn.relu,
        activate_last: bool = False,
    ) -> "MLP":
        """Layers between consecutive `sizes`; a single size makes the identity."""
        keys = jax.random.split(key, max(len(sizes) - 1, 1))
        layers = tuple(Linear.init(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=False))
        return cls(layers=layers, activation=activation, activate_last=activate_last)

    def __call__(self, x: Float[Array, "*B in"]) -> Float[Array, "*B out"]:
        """Applies the layers to the last axis."""
        for index, layer in enumerate(self.layers):
            x = layer(x)
            if self.activate_last or index < len(self.layers) - 1:
                x = self.activation(x)
        return x


class Convolutions(eqx.Module):
    """Images [*B, height, width, channels] to features, by three strided convolutions."""

    kernels: tuple[Float[Array, "h w in out"], ...]
    strides: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, channels: int) -> "Convolutions":
        """32 features at every eighth pixel."""
        widths = (channels, 32, 32, 32)
        keys = jax.random.split(key, 3)
        kernels = tuple(
            jax.random.normal(k, (3, 3, i, o)) / jnp.sqrt(9 * i / 2)
            for k, i, o in zip(keys, widths[:-1], widths[1:], strict=True)
        )
        return cls(kernels=kernels, strides=(2, 2, 2))

    def __call__(self, images: Float[Array, "*B height width channels"]) -> Float[Array, "*B features"]:
        """Features of images whose pixels have mean 0 and deviation 1."""
        batch, image = images.shape[:-3], images.shape[-3:]
        x = images.reshape(-1, *image)
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            dimensions = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(
                x, kernel, (stride, stride), "SAME", dimension_numbers=dimensions
            )
            x = jax.nn.relu(x)
        return x.reshape(*batch, -1)


def observation_encoder(
    key: PRNGKeyArray, shape: tuple[int, ...], layers: Sequence[int] = ()
) -> tuple[Callable[[Array], Array], int]:
    """What stands before the joint layers, and its width: convolutions for images, then `layers`, or nothing."""
    if len(shape) == 1:
        return MLP.init(key, (shape[0], *layers), activate_last=True), (shape[0], *layers)[-1]
    if len(shape) != 3:
        raise PloffError(
            f"observations must be vectors or images [height, width, channels], got shape {shape}"
        )
    if shape[0] <= 4 < shape[-1]:
        raise PloffError(
            f"images are [height, width, channels]; those of shape {shape} have their channels first"
        )
    image_key, key = jax.random.split(key)
    convolutions = Convolutions.init(image_key, shape[-1])
    width = jax.eval_shape(convolutions, jax.ShapeDtypeStruct(shape, jnp.float32)).shape[-1]
    mlp = MLP.init(key, (width, *layers), activate_last=True)
    return eqx.nn.Sequential([eqx.nn.Lambda(convolutions), eqx.nn.Lambda(mlp)]), (width, *layers)[-1]


class StateEncoder(eqx.Module):
    """Ψ: a hidden layer of relu units between an observation and its embedding."""

    encoder: Callable[[Array], Array]
    first: Linear
    last: Linear

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        hidden: int,
        embedding: int,
        layers: Sequence[int] = (),
    ) -> "StateEncoder":
        """`layers` are the sizes of the encoder in front; none by default."""
        keys = jax.random.split(key, 3)
        encoder, width = observation_encoder(keys[0], shape, layers)
        return cls(encoder, Linear.init(keys[1], width, hidden), Linear.init(keys[2], hidden, embedding))

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B E"]:
        """Ψ(s)."""
        return self.last(jax.nn.relu(self.first(self.encoder(observations))))


class PairEncoder(eqx.Module):
    """Φ: like Ψ, on a state and an action that meet in the hidden layer.

    The hidden layer sees the concatenation: W [s; a] = W_s s + W_a a. Kept apart, the two halves can be computed once a
    state and once an action, and added for every combination.
    """

    state_encoder: Callable[[Array], Array]
    action_encoder: Callable[[Array], Array]
    first_of_state: Linear
    first_of_action: Linear
    last: Linear

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        actions: int,
        hidden: int,
        embedding: int,
        state_layers: Sequence[int] = (),
        action_layers: Sequence[int] = (),
    ) -> "PairEncoder":
        """`state_layers` and `action_layers` are the sizes of the encoders in front; none by default."""
        keys = jax.random.split(key, 5)
        state_encoder, state_width = observation_encoder(keys[0], shape, state_layers)
        action_encoder, action_width = observation_encoder(keys[1], (actions,), action_layers)
        fan_in = state_width + action_width
        return cls(
            state_encoder,
            action_encoder,
            first_of_state=Linear.init(keys[2], state_width, hidden, fan_in=fan_in),
            first_of_action=Linear.init(keys[3], action_width, hidden, bias=False, fan_in=fan_in),
            last=Linear.init(keys[4], hidden, embedding),
        )

    def __call__(
        self, observations: Float[Array, "*B S"], actions: Float[Array, "*B A"]
    ) -> Float[Array, "*B E"]:
        """Φ(s, a), row by row."""
        return self.last(jax.nn.relu(self._from_state(observations) + self._from_action(actions)))

    def over_actions(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "n A"]
    ) -> Float[Array, "n B E"]:
        """Φ(s, u) for every state and every action: the first layer's rows are an outer sum."""
        states, actions = self._from_state(observations), self._from_action(actions)
        return self.last(jax.nn.relu(states[None] + actions[:, None]))

    def _from_state(self, observations: Array) -> Array:
        return self.first_of_state(self.state_encoder(observations))

    def _from_action(self, actions: Array) -> Array:
        return self.first_of_action(self.action_encoder(actions))
