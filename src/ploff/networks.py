"""Layers that the metric's and the agents' networks are made of, as pytrees of plain arrays.

Weights are stored [in, out], so that a layer is `x @ weight + bias` on a batch of any leading shape.

Shapes: B rows, S observation, H hidden.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.utils.errors import PloffError

Activation = Literal["relu", "tanh-elu"]  # relu in all layers; tanh in the first and elu in the others


class Linear(eqx.Module):
    """x W + b; without b where `bias` is None."""

    weight: Float[Array, "in out"]
    bias: Float[Array, "out"] | None

    @classmethod
    def init(
        cls, key: PRNGKeyArray, inputs: int, outputs: int, *, bias: bool = True, fan_in: int | None = None
    ) -> "Linear":
        """Draws weights uniformly in ±1/√fan_in; biases are 0.

        Args:
          key: seeds the weights.
          inputs: size of the input.
          outputs: size of the output.
          bias: whether there is one.
          fan_in: the whole input's size, where this layer sees a part of it.
        """
        limit = 1.0 / jnp.sqrt(fan_in or inputs)
        weight = jax.random.uniform(key, (inputs, outputs), minval=-limit, maxval=limit)
        return cls(weight=weight, bias=jnp.zeros(outputs) if bias else None)

    def __call__(self, x: Float[Array, "*B in"]) -> Float[Array, "*B out"]:
        """Applies the layer to the last axis."""
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


class LayerNorm(eqx.Module):
    """Normalizes each row to mean 0 and deviation 1, then applies a learned scale and shift."""

    scale: Float[Array, "H"]
    shift: Float[Array, "H"]

    @classmethod
    def init(cls, size: int) -> "LayerNorm":
        """Scale 1, shift 0."""
        return cls(scale=jnp.ones(size), shift=jnp.zeros(size))

    def __call__(self, x: Float[Array, "*B H"]) -> Float[Array, "*B H"]:
        """Normalizes the last axis."""
        centered = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centered), axis=-1, keepdims=True)
        return centered * jax.lax.rsqrt(variance + 1e-5) * self.scale + self.shift


class MLP(eqx.Module):
    """Linear layers with an activation after each, the last one included only if asked for."""

    layers: tuple[Linear, ...]
    norms: tuple[LayerNorm, ...]  # before each activation; none without layer normalization
    activation: Activation = eqx.field(static=True)
    activate_last: bool = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        sizes: Sequence[int],
        *,
        activation: Activation = "relu",
        layer_norm: bool = False,
        activate_last: bool = False,
    ) -> "MLP":
        """Makes layers between consecutive `sizes`; a single size makes the identity."""
        keys = jax.random.split(key, max(len(sizes) - 1, 1))
        layers = tuple(Linear.init(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=False))
        normed = sizes[1:] if activate_last else sizes[1:-1]
        norms = tuple(LayerNorm.init(size) for size in normed) if layer_norm else ()
        return cls(layers=layers, norms=norms, activation=activation, activate_last=activate_last)

    def __call__(self, x: Float[Array, "*B in"]) -> Float[Array, "*B out"]:
        """Applies the layers to the last axis."""
        for index, layer in enumerate(self.layers):
            x = layer(x)
            if self.activate_last or index < len(self.layers) - 1:
                x = self._activate(self.norms[index](x) if self.norms else x, index)
        return x

    def _activate(self, x: Float[Array, "*B H"], index: int) -> Float[Array, "*B H"]:
        if self.activation == "relu":
            return jax.nn.relu(x)
        return jnp.tanh(x) if index == 0 else jax.nn.elu(x)


class Convolutions(eqx.Module):
    """Images [*B, height, width, channels] to features, by three strided convolutions."""

    kernels: tuple[Float[Array, "3 3 _ _"], ...]  # [height, width, in, out]
    strides: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, channels: int) -> "Convolutions":
        """Gives 32 features at every eighth pixel."""
        sizes = (channels, 32, 32, 32)
        keys = jax.random.split(key, 3)
        kernels = tuple(
            jax.random.normal(k, (3, 3, i, o)) / jnp.sqrt(9 * i / 2)
            for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
        )
        return cls(kernels=kernels, strides=(2, 2, 2))

    def __call__(self, images: Float[Array, "*B height width channels"]) -> Float[Array, "*B features"]:
        """Features of images whose pixels have mean 0 and deviation 1."""
        batch, image = images.shape[:-3], images.shape[-3:]
        x = images.reshape(-1, *image)
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            dimensions = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=dimensions)
            x = jax.nn.relu(x)
        return x.reshape(*batch, -1)


def observation_encoder(
    key: PRNGKeyArray, shape: tuple[int, ...], sizes: Sequence[int] = ()
) -> tuple[Callable[[Array], Array], int]:
    """Makes what stands before the joint layers: convolutions for images, then layers of `sizes`, or nothing.

    Args:
      key: seeds the weights.
      shape: the shape of one observation.
      sizes: layers behind the convolutions, or on a vector.

    Returns:
      The encoder, and the size of its output.
    """
    if len(shape) == 1:
        return MLP.init(key, (shape[0], *sizes), activate_last=True), (shape[0], *sizes)[-1]
    if len(shape) != 3:
        raise PloffError(f"observations must be vectors or images [height, width, channels], got shape {shape}")
    if shape[0] <= 4 < shape[-1]:
        raise PloffError(f"images are [height, width, channels]; those of shape {shape} have their channels first")
    image_key, key = jax.random.split(key)
    convolutions = Convolutions.init(image_key, shape[-1])
    width = jax.eval_shape(convolutions, jax.ShapeDtypeStruct(shape, jnp.float32)).shape[-1]
    mlp = MLP.init(key, (width, *sizes), activate_last=True)
    return eqx.nn.Sequential([eqx.nn.Lambda(convolutions), eqx.nn.Lambda(mlp)]), (width, *sizes)[-1]
