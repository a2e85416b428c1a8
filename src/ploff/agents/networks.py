"""Networks of the agents: deterministic actors, critics and state values.

Observations come normalized; actions go in and come out in the log's own units, inside their box.

Shapes: B rows, n samples per row, S observation, F features of it, A action.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.networks import MLP, Activation, observation_encoder

Network = TypeVar("Network", bound="ObservationNetwork")


class HiddenLayers(NamedTuple):
    """What lies between a network's inputs and its last layer."""

    sizes: tuple[int, ...]
    activation: Activation = "relu"
    layer_norm: bool = False


class ObservationNetwork(eqx.Module):
    """An MLP over an observation, and over what is given beside it; images pass through convolutions first."""

    encoder: Callable[[Array], Array]
    mlp: MLP

    @classmethod
    def create(
        cls: type[Network],
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        hidden: HiddenLayers,
        num_outputs: int,
        num_given: int = 0,
        **fields: Any,
    ) -> Network:
        """Draws the weights of a network.

        Args:
          key: seeds the weights.
          shape: the shape of one observation.
          hidden: the hidden layers.
          num_outputs: size of the output.
          num_given: how many numbers stand beside an observation.
          **fields: what else the class has.
        """
        encoder_key, mlp_key = jax.random.split(key)
        encoder, width = observation_encoder(encoder_key, shape)
        sizes = (width + num_given, *hidden.sizes, num_outputs)
        mlp = MLP.init(mlp_key, sizes, activation=hidden.activation, layer_norm=hidden.layer_norm)
        return cls(encoder, mlp, **fields)

    def forward(
        self, observations: Float[Array, "B *S"], given: Float[Array, "*n B A"] | None = None
    ) -> Float[Array, "*n B out"]:
        """The MLP's output, for every sample of what is given; features are computed once per row."""
        features = self.encoder(observations)
        return self.mlp(features if given is None else concat_samples(features, given))


def concat_samples(features: Float[Array, "B F"], samples: Float[Array, "*n B A"]) -> Float[Array, "*n B F+A"]:
    """Each sample next to the features of its row."""
    repeated = jnp.broadcast_to(features, (*samples.shape[:-1], features.shape[-1]))
    return jnp.concatenate([repeated, samples], axis=-1)


class Actor(ObservationNetwork):
    """π: a deterministic policy into the box of actions."""

    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: HiddenLayers) -> "Actor":
        """Makes an actor for observations of `shape` and actions of `space`."""
        return cls.create(key, shape, hidden, space.width, space=space)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B A"]:
        """π(s), inside the box."""
        return self.space.from_unit(jnp.tanh(self.forward(observations)))


class Critic(ObservationNetwork):
    """Q(s, a)."""

    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: HiddenLayers) -> "Critic":
        """Makes a critic for observations of `shape` and actions of `space`."""
        return cls.create(key, shape, hidden, 1, num_given=space.width, space=space)

    def __call__(self, observations: Float[Array, "B *S"], actions: Float[Array, "*n B A"]) -> Float[Array, "*n B"]:
        """Q(s, a), of every sample."""
        return self.forward(observations, self.space.to_unit(actions))[..., 0]


class DoubleCritic(eqx.Module):
    """Two critics with parameters of their own (clipped double Q-learning)."""

    q1: Critic
    q2: Critic

    @classmethod
    def init(
        cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: HiddenLayers
    ) -> "DoubleCritic":
        """Makes both critics."""
        key_1, key_2 = jax.random.split(key)
        return cls(Critic.init(key_1, shape, space, hidden), Critic.init(key_2, shape, space, hidden))

    def __call__(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "*n B A"]
    ) -> tuple[Float[Array, "*n B"], Float[Array, "*n B"]]:
        """Both values, of every sample."""
        return self.q1(observations, actions), self.q2(observations, actions)

    def min(self, observations: Float[Array, "B *S"], actions: Float[Array, "*n B A"]) -> Float[Array, "*n B"]:
        """min(Q₁, Q₂)."""
        return jnp.minimum(*self(observations, actions))


class StateValue(ObservationNetwork):
    """V(s)."""

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], hidden: HiddenLayers) -> "StateValue":
        """Makes a value for observations of `shape`."""
        return cls.create(key, shape, hidden, 1)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B"]:
        """V(s)."""
        return self.forward(observations)[..., 0]
