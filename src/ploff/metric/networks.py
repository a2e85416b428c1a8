"""Networks of the metric. Shapes: B rows, S observation, A action, H hidden, E embedding, n actions.

An observation may be a vector or an image, behind any number of leading axes: its shape is then written as `...`.
The end, where a process stays that has ended, is a state without an observation: an input of its own tells it from all
others.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ploff.networks import MLP, Linear, observation_encoder


class StateEncoder(eqx.Module):
    """Ψ: hidden layers of relu units between an observation and its embedding."""

    encoder: Callable[[Array], Array]
    joint: MLP
    has_end: bool = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        hidden_sizes: Sequence[int],
        embedding_size: int,
        encoder_sizes: Sequence[int] = (),
        *,
        has_end: bool = False,
    ) -> "StateEncoder":
        """Draws the weights; `encoder_sizes` are layers in front, none by default."""
        keys = jax.random.split(key, 3)
        encoder, width = observation_encoder(keys[0], shape, encoder_sizes)
        return cls(encoder, _joint(keys[1:], (width + has_end, *hidden_sizes, embedding_size)), has_end)

    def __call__(self, observations: Float[Array, "B *S"], ended: Bool[Array, "B"] | None = None) -> Array:
        """Ψ(s), [B, E]; of the end where `ended` says so."""
        features = self.encoder(observations)
        return self.joint(with_end(features, ended) if self.has_end else features)


class PairEncoder(eqx.Module):
    """Φ: like Ψ, on a state and an action that meet in the first hidden layer.

    That layer sees the concatenation: W [s; a] = W_s s + W_a a. Kept apart, the two halves can be computed once per
    state and once per action, and added for every combination.
    """

    state_encoder: Callable[[Array], Array]
    action_encoder: Callable[[Array], Array]
    first_of_state: Linear
    first_of_action: Linear
    has_end: bool = eqx.field(static=True)
    rest: MLP

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        action_size: int,
        hidden_sizes: Sequence[int],
        embedding_size: int,
        state_encoder_sizes: Sequence[int] = (),
        action_encoder_sizes: Sequence[int] = (),
        *,
        has_end: bool = False,
    ) -> "PairEncoder":
        """Draws the weights; the encoders' sizes are layers in front, none by default."""
        keys = jax.random.split(key, 5)
        state_encoder, state_width = observation_encoder(keys[0], shape, state_encoder_sizes)
        action_encoder, action_width = observation_encoder(keys[1], (action_size,), action_encoder_sizes)
        state_width += has_end
        fan_in, first = state_width + action_width, hidden_sizes[0]
        return cls(
            state_encoder,
            action_encoder,
            first_of_state=Linear.init(keys[2], state_width, first, fan_in=fan_in),
            first_of_action=Linear.init(keys[3], action_width, first, bias=False, fan_in=fan_in),
            rest=_joint(keys[4:], (*hidden_sizes, embedding_size)),
            has_end=has_end,
        )

    def __call__(
        self,
        observations: Float[Array, "..."],
        actions: Float[Array, "*B A"],
        ended: Bool[Array, "*B"] | None = None,
    ) -> Float[Array, "*B E"]:
        """Φ(s, a), row by row; s is the end where `ended` says so."""
        return self.rest(jax.nn.relu(self._of_state(observations, ended) + self._of_action(actions)))

    def over_actions(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "n A"], ended: Bool[Array, "B"] | None = None
    ) -> Float[Array, "n B E"]:
        """Φ(s, u) for every state and every action: the first layer's rows are an outer sum."""
        states, actions = self._of_state(observations, ended), self._of_action(actions)
        return self.rest(jax.nn.relu(states[None] + actions[:, None]))

    def _of_state(self, observations: Array, ended: Array | None) -> Array:
        features = self.state_encoder(observations)
        return self.first_of_state(with_end(features, ended) if self.has_end else features)

    def _of_action(self, actions: Array) -> Array:
        return self.first_of_action(self.action_encoder(actions))


def with_end(features: Float[Array, "*B F"], ended: Bool[Array, "*B"] | None = None) -> Float[Array, "*B F+1"]:
    """Features of a state, and behind them 0; of the end they are all 0, and behind them 1."""
    if ended is None:
        return jnp.concatenate([features, jnp.zeros((*features.shape[:-1], 1))], axis=-1)
    flag = ended[..., None]
    return jnp.concatenate([jnp.where(flag, 0.0, features), flag.astype(features.dtype)], axis=-1)


def _joint(keys: Array, sizes: Sequence[int]) -> MLP:
    """An MLP with relu between its layers, each layer drawn from a key of its own."""
    if len(sizes) - 1 > len(keys):
        keys = jax.random.split(keys[0], len(sizes) - 1)
    layers = tuple(Linear.init(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True))
    return MLP(layers=layers, norms=(), activation="relu", activate_last=False)
