"""Networks of the metric. Shapes: B rows, S observation, A action, H hidden, E embedding, n actions.

An observation may be a vector or an image, behind any number of leading axes: its shape is then written as `...`.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.networks import MLP, Linear, observation_encoder


class StateEncoder(eqx.Module):
    """Ψ: hidden layers of relu units between an observation and its embedding."""

    encoder: Callable[[Array], Array]
    joint: MLP

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        hidden_sizes: Sequence[int],
        embedding_size: int,
        encoder_sizes: Sequence[int] = (),
    ) -> "StateEncoder":
        """Draws the weights; `encoder_sizes` are layers in front, none by default."""
        keys = jax.random.split(key, 3)
        encoder, width = observation_encoder(keys[0], shape, encoder_sizes)
        return cls(encoder, _joint(keys[1:], (width, *hidden_sizes, embedding_size)))

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B E"]:
        """Ψ(s)."""
        return self.joint(self.encoder(observations))


class PairEncoder(eqx.Module):
    """Φ: like Ψ, on a state and an action that meet in the first hidden layer.

    That layer sees the concatenation: W [s; a] = W_s s + W_a a. Kept apart, the two halves can be computed once per
    state and once per action, and added for every combination.
    """

    state_encoder: Callable[[Array], Array]
    action_encoder: Callable[[Array], Array]
    first_of_state: Linear
    first_of_action: Linear
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
    ) -> "PairEncoder":
        """Draws the weights; the encoders' sizes are layers in front, none by default."""
        keys = jax.random.split(key, 5)
        state_encoder, state_width = observation_encoder(keys[0], shape, state_encoder_sizes)
        action_encoder, action_width = observation_encoder(keys[1], (action_size,), action_encoder_sizes)
        fan_in, first = state_width + action_width, hidden_sizes[0]
        return cls(
            state_encoder,
            action_encoder,
            first_of_state=Linear.init(keys[2], state_width, first, fan_in=fan_in),
            first_of_action=Linear.init(keys[3], action_width, first, bias=False, fan_in=fan_in),
            rest=_joint(keys[4:], (*hidden_sizes, embedding_size)),
        )

    def __call__(self, observations: Float[Array, "..."], actions: Float[Array, "*B A"]) -> Float[Array, "*B E"]:
        """Φ(s, a), row by row."""
        return self.rest(jax.nn.relu(self._of_state(observations) + self._of_action(actions)))

    def over_actions(self, observations: Float[Array, "B *S"], actions: Float[Array, "n A"]) -> Float[Array, "n B E"]:
        """Φ(s, u) for every state and every action: the first layer's rows are an outer sum."""
        states, actions = self._of_state(observations), self._of_action(actions)
        return self.rest(jax.nn.relu(states[None] + actions[:, None]))

    def _of_state(self, observations: Array) -> Array:
        return self.first_of_state(self.state_encoder(observations))

    def _of_action(self, actions: Array) -> Array:
        return self.first_of_action(self.action_encoder(actions))


def _joint(keys: Array, sizes: Sequence[int]) -> MLP:
    """An MLP with relu between its layers, each layer drawn from a key of its own."""
    if len(sizes) - 1 > len(keys):
        keys = jax.random.split(keys[0], len(sizes) - 1)
    layers = tuple(Linear.init(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True))
    return MLP(layers=layers, norms=(), activation="relu", activate_last=False)
