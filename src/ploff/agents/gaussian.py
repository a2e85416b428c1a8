r"""Stochastic policies. Densities are over actions in units of half their range, in [−1, 1].

    squashed:  a = tanh(u), u ∼ N(μ(s), σ(s)²),   log π(a|s) = log N(u; μ, σ²) − Σ log(1 − tanh²u)
    bounded:   a ∼ N(tanh μ(s), σ²), σ the same in every state

Shapes: n samples, B states, S observation, A action.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents.actor_critic import Actor, Layers, Network
from ploff.agents.learner import Learner
from ploff.transitions import Batch

LOG_DEVIATIONS = (-5.0, 2.0)  # that a policy may have
EDGE = 1e-6  # how near to the box's edge an action may be: on it, no squashed density is finite


class Samples(NamedTuple):
    """Actions of a squashed policy."""

    actions: Float[Array, "n B A"]  # in the log's units
    raw: Float[Array, "n B A"]  # before tanh
    log_density: Float[Array, "n B"]


class SquashedGaussian(Network):
    """π: a normal distribution with a mean and a deviation a state, squashed into the box."""

    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(
        cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: Layers
    ) -> "SquashedGaussian":
        """A policy for observations of `shape` and actions of `space`."""
        return cls.fresh(key, shape, hidden, 2 * space.width, space=space)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
        """The squashed mean, inside the box."""
        return self.space.from_unit(jnp.tanh(self.moments(observations)[0]))

    def moments(self, observations: Float[Array, "B *S"]) -> tuple[Float[Array, "B A"], Float[Array, "B A"]]:
        """μ(s) and log σ(s), before tanh."""
        mean, log_deviation = jnp.split(self.outputs(observations), 2, axis=-1)
        return mean, jnp.clip(log_deviation, *LOG_DEVIATIONS)

    def sample(self, key: PRNGKeyArray, observations: Float[Array, "B *S"], count: int) -> Samples:
        """`count` actions a state, through which gradients flow to the policy."""
        shape = (count, observations.shape[0], self.space.width)
        return self.at(observations, jax.random.normal(key, shape))

    def sample_raw(
        self, key: PRNGKeyArray, observations: Float[Array, "B *S"], count: int
    ) -> Float[Array, "n B A"]:
        """As `sample`, the actions before tanh alone."""
        return self.sample(key, observations, count).raw

    def at(self, observations: Float[Array, "B *S"], noise: Float[Array, "n B A"]) -> Samples:
        """The actions that standard normal noise stands for; it may be [n, 1, A], the same in every state."""
        mean, log_deviation = self.moments(observations)
        raw = mean + jnp.exp(log_deviation) * noise
        density = normal_log_density(noise, log_deviation) - squashing(raw)
        return Samples(self.space.from_unit(jnp.tanh(raw)), raw, density)

    def log_density(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "*n B A"], edge: float = EDGE
    ) -> Float[Array, "*n B"]:
        """The log of π(a|s); actions closer to the box's edge count as so far inside it."""
        unit = jnp.clip(self.space.to_unit(actions), -1 + edge, 1 - edge)
        return self.log_density_raw(observations, jnp.arctanh(unit))

    def log_density_raw(
        self, observations: Float[Array, "B *S"], raw: Float[Array, "*n B A"]
    ) -> Float[Array, "*n B"]:
        """The log of π(tanh u|s)."""
        mean, log_deviation = self.moments(observations)
        return normal_log_density((raw - mean) / jnp.exp(log_deviation), log_deviation) - squashing(raw)


class BoundedGaussian(eqx.Module):
    """A normal distribution around a deterministic policy, its deviation the same in every state."""

    mean: Actor
    log_deviation: Float[Array, "A"]

    @classmethod
    def init(
        cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: Layers
    ) -> "BoundedGaussian":
        """Deviations start at 1."""
        return cls(Actor.init(key, shape, space, hidden), jnp.zeros(space.width))

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
        """The mean, inside the box."""
        return self.mean(observations)

    def log_density(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "B A"]
    ) -> Float[Array, "B"]:
        """The log of π(a|s)."""
        space, log_deviation = self.mean.space, jnp.clip(self.log_deviation, *LOG_DEVIATIONS)
        apart = space.to_unit(actions) - space.to_unit(self.mean(observations))
        return normal_log_density(apart / jnp.exp(log_deviation), log_deviation)


def imitation_loss(policy: SquashedGaussian, batch: Batch, edge: float = EDGE) -> Float[Array, ""]:
    """−mean log π(a|s) of the logged actions."""
    return -jnp.mean(policy.log_density(batch.observations, batch.actions, edge))


def hold_entropy(
    weight: Learner[Float[Array, ""]], entropy: Float[Array, ""], space: ActionSpace, rate: float
) -> Learner[Float[Array, ""]]:
    """A step of what entropy is weighted by, or of its logarithm: up where the entropy is below −A, else down."""
    held, _, _ = weight.descend(optax.adam(rate), lambda weight: (weight * (entropy + space.width), None))
    return held


def normal_log_density(
    standard: Float[Array, "*B A"], log_deviation: Float[Array, "*B A"]
) -> Float[Array, "*B"]:
    """The log of N(x; μ, σ²) from (x − μ)/σ and log σ, over the last axis."""
    return jnp.sum(-0.5 * jnp.square(standard) - log_deviation - 0.5 * math.log(2 * math.pi), axis=-1)


def squashing(raw: Float[Array, "*B A"]) -> Float[Array, "*B"]:
    """Σ log(1 − tanh²u), without the cancellation for large u."""
    return jnp.sum(2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw)), axis=-1)
