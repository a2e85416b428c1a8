r"""Stochastic policies. Densities are over actions in units of half their range, in [−1, 1].

    squashed:   a = tanh(u), u ∼ N(μ(s), σ(s)²),   log π(a|s) = log N(u; μ, σ²) − Σ log(1 − tanh²u)
    tanh mean:  a ∼ N(tanh μ(s), σ²), σ the same in every state

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
from ploff.agents.networks import Actor, HiddenLayers, ObservationNetwork
from ploff.training.train_state import TrainState
from ploff.transitions import Batch

LOG_STD_BOUNDS = (-5.0, 2.0)
MARGIN = 1e-6  # how near to the box's edge an action may be: on it, no squashed density is finite


class Samples(NamedTuple):
    """Actions of a squashed policy."""

    actions: Float[Array, "n B A"]  # in the log's units
    raw: Float[Array, "n B A"]  # before tanh
    log_prob: Float[Array, "n B"]


class SquashedGaussian(ObservationNetwork):
    """π: a normal distribution with a mean and a deviation per state, squashed into the box."""

    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(
        cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: HiddenLayers
    ) -> "SquashedGaussian":
        """Makes a policy for observations of `shape` and actions of `space`."""
        return cls.create(key, shape, hidden, 2 * space.width, space=space)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B A"]:
        """The squashed mean, inside the box."""
        return self.space.from_unit(jnp.tanh(self.moments(observations)[0]))

    def moments(self, observations: Float[Array, "B *S"]) -> tuple[Float[Array, "B A"], Float[Array, "B A"]]:
        """μ(s) and log σ(s), before tanh."""
        mean, log_std = jnp.split(self.forward(observations), 2, axis=-1)
        return mean, jnp.clip(log_std, *LOG_STD_BOUNDS)

    def sample(self, key: PRNGKeyArray, observations: Float[Array, "B *S"], count: int) -> Samples:
        """`count` actions per state, through which gradients flow to the policy."""
        shape = (count, observations.shape[0], self.space.width)
        return self.actions_from_noise(observations, jax.random.normal(key, shape))

    def sample_raw(self, key: PRNGKeyArray, observations: Float[Array, "B *S"], count: int) -> Float[Array, "n B A"]:
        """As `sample`, the actions before tanh alone."""
        return self.sample(key, observations, count).raw

    def actions_from_noise(self, observations: Float[Array, "B *S"], noise: Float[Array, "n #B A"]) -> Samples:
        """The actions that standard normal noise stands for; it may be [n, 1, A], the same in every state."""
        mean, log_std = self.moments(observations)
        raw = mean + jnp.exp(log_std) * noise
        density = normal_log_prob(noise, log_std) - log_det_tanh(raw)
        return Samples(self.space.from_unit(jnp.tanh(raw)), raw, density)

    def log_prob(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "*n B A"], margin: float = MARGIN
    ) -> Float[Array, "*n B"]:
        """The log of π(a|s); actions closer to the box's edge count as so far inside it."""
        unit = jnp.clip(self.space.to_unit(actions), -1 + margin, 1 - margin)
        return self.log_prob_of_raw(observations, jnp.arctanh(unit))

    def log_prob_of_raw(self, observations: Float[Array, "B *S"], raw: Float[Array, "*n B A"]) -> Float[Array, "*n B"]:
        """The log of π(tanh u|s)."""
        mean, log_std = self.moments(observations)
        return normal_log_prob((raw - mean) / jnp.exp(log_std), log_std) - log_det_tanh(raw)


class TanhMeanGaussian(eqx.Module):
    """A normal distribution around a deterministic policy, its deviation the same in every state."""

    mean: Actor
    log_std: Float[Array, "A"]

    @classmethod
    def init(
        cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: HiddenLayers
    ) -> "TanhMeanGaussian":
        """Deviations start at 1."""
        return cls(Actor.init(key, shape, space, hidden), jnp.zeros(space.width))

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B A"]:
        """The mean, inside the box."""
        return self.mean(observations)

    def log_prob(self, observations: Float[Array, "B *S"], actions: Float[Array, "B A"]) -> Float[Array, "B"]:
        """The log of π(a|s)."""
        space, log_std = self.mean.space, jnp.clip(self.log_std, *LOG_STD_BOUNDS)
        difference = space.to_unit(actions) - space.to_unit(self.mean(observations))
        return normal_log_prob(difference / jnp.exp(log_std), log_std)


def imitation_loss(policy: SquashedGaussian, batch: Batch, margin: float = MARGIN) -> Float[Array, ""]:
    """−mean log π(a|s) of the logged actions."""
    return -jnp.mean(policy.log_prob(batch.observations, batch.actions, margin))


def update_temperature(
    temperature: TrainState[Float[Array, ""]], entropy: Float[Array, ""], space: ActionSpace, lr: float
) -> TrainState[Float[Array, ""]]:
    """One step of the entropy's weight, or of its logarithm: up where the entropy is below −A, else down."""
    target = -space.width
    updated, _, _ = temperature.apply_gradient(optax.adam(lr), lambda weight: (weight * (entropy - target), None))
    return updated


def normal_log_prob(standard: Float[Array, "*#B A"], log_std: Float[Array, "*#B A"]) -> Float[Array, "..."]:
    """The log of N(x; μ, σ²) from (x − μ)/σ and log σ, over the last axis."""
    return jnp.sum(-0.5 * jnp.square(standard) - log_std - 0.5 * math.log(2 * math.pi), axis=-1)


def log_det_tanh(raw: Float[Array, "*B A"]) -> Float[Array, "*B"]:
    """Σ log(1 − tanh²u), without the cancellation for large u."""
    return jnp.sum(2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw)), axis=-1)
