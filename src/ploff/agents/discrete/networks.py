"""Networks that score every action at once, legal actions, and the policies that choose by scores.

Shapes: B rows, S observation, n actions.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ploff.agents.networks import HiddenLayers, ObservationNetwork

Legal = Bool[Any, "B n"] | None  # None: every action is legal


class ActionScores(ObservationNetwork):
    """One number per action: values Q(s, ·), or logits."""

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], num_actions: int, hidden: HiddenLayers) -> "ActionScores":
        """Makes a network for observations of `shape`."""
        return cls.create(key, shape, hidden, num_actions)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B n"]:
        """The scores of all actions."""
        return self.forward(observations)


def masked(scores: Float[Array, "B n"], legal: Legal) -> Float[Array, "B n"]:
    """Scores with −∞ where an action is not legal."""
    return scores if legal is None else jnp.where(legal, scores, -jnp.inf)


def score_of(scores: Float[Array, "B n"], actions: Float[Array, "B n"]) -> Float[Array, "B"]:
    """The score of each row's own action, which is encoded."""
    return jnp.take_along_axis(scores, jnp.argmax(actions, axis=-1)[:, None], axis=-1)[:, 0]


def score_at(scores: Float[Array, "B n"], choices: Int[Array, "B"]) -> Float[Array, "B"]:
    """The score of each row's own action, by its number."""
    return jnp.take_along_axis(scores, choices[:, None], axis=-1)[:, 0]


def cross_entropy(logits: Float[Array, "B n"], actions: Float[Array, "B n"], legal: Legal) -> Float[Array, "B"]:
    """−log π(a|s) among the legal actions."""
    return -score_of(jax.nn.log_softmax(masked(logits, legal), axis=-1), actions)


def deviation(scores: Float[Array, "B n"], legal: Legal) -> Float[Array, ""]:
    """How much scores differ between the legal actions of a state: the mean over states of their deviation."""
    weights = jnp.ones_like(scores) if legal is None else legal.astype(scores.dtype)
    count = jnp.maximum(jnp.sum(weights, axis=-1, keepdims=True), 1.0)
    centered = (scores - jnp.sum(weights * scores, axis=-1, keepdims=True) / count) * weights
    return jnp.mean(jnp.sqrt(jnp.sum(jnp.square(centered), axis=-1) / count[:, 0]))


class ChoicePolicy(eqx.Module):
    """Chooses the legal action of the highest score."""

    def scores(self, observations: Float[Array, "B *S"], legal: Legal = None) -> Float[Array, "B n"]:
        """What the choice is made by; −∞ where an action is not legal."""
        raise NotImplementedError

    def probabilities(self, observations: Float[Array, "B *S"], legal: Legal = None) -> Float[Array, "B n"]:
        """How likely each action is: 1 for the one that is chosen, where nothing is left to chance."""
        scores = self.scores(observations, legal)
        return jax.nn.one_hot(jnp.argmax(scores, axis=-1), scores.shape[-1])

    def __call__(self, observations: Float[Array, "B *S"], legal: Legal = None) -> Int[Array, "B"]:
        """The number of the action."""
        return jnp.argmax(self.scores(observations, legal), axis=-1)


class GreedyPolicy(ChoicePolicy):
    """The action of the highest value."""

    critic: ActionScores

    def scores(self, observations: Float[Array, "B *S"], legal: Legal = None) -> Float[Array, "B n"]:
        """Q(s, ·)."""
        return masked(self.critic(observations), legal)


class SoftmaxPolicy(ChoicePolicy):
    """A distribution over actions, whose call gives the likeliest."""

    logits: ActionScores

    def scores(self, observations: Float[Array, "B *S"], legal: Legal = None) -> Float[Array, "B n"]:
        """Logits."""
        return masked(self.logits(observations), legal)

    def probabilities(self, observations: Float[Array, "B *S"], legal: Legal = None) -> Float[Array, "B n"]:
        """π(·|s)."""
        return jax.nn.softmax(self.scores(observations, legal), axis=-1)
