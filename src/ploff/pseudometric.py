r"""The pseudometric d on state-action pairs (paper, section 3.4, and two terms past it).

    d(s₁,a₁; s₂,a₂) = ‖Φ(s₁,a₁) − Φ(s₂,a₂)‖ + w|a₁ − a₂|        D(s₁; s₂) = ‖Ψ(s₁) − Ψ(s₂)‖

    ‖Φ(s₁,a₁) − Φ(s₂,a₂)‖ ≈ |r₁ − r₂| + v|s₁ − s₂| + γ D(s₁′; s₂′)        D(s₁; s₂) ≈ E_{u∼ρ} ‖Φ(s₁,u) − Φ(s₂,u)‖

|·| between actions, and between states, is the root mean square over their dimensions; the paper has v = w = 0 and
ρ = U(A). The same u stands on both sides, so the term in w vanishes under the expectation: the fixed point with it is
w|a₁ − a₂| plus the fixed point without it. It is added to the learned distance, not learned, and therefore exact.

Embeddings lie in a ball whose diameter is the largest distance there can be (`bound`), so that nothing diverges, not
even at actions that the log does not contain. `ploff.metric_learning` learns Φ and Ψ.

Shapes: B rows, S observation, A action, E embedding.
"""

import dataclasses
import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.errors import PloffError
from ploff.networks import PairEncoder, StateEncoder
from ploff.settings import choices, counts, not_negative, positive, within
from ploff.transitions import Transitions


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricConfig:
    """How the pseudometric is defined and learned; `MetricConfig.paper()` has the printed losses."""

    discount: float = 0.9  # γ of the metric
    next_actions: Literal["log", "uniform"] = "log"  # ρ
    action_weight: float = 1.0  # w, in units of the log: at 1, actions weigh as much as what is learned
    state_weight: float = 0.3  # v
    bounded: bool = True  # embeddings in a ball, targets clipped: no distance can exceed its bound
    standardise: bool = True  # observations with mean 0 and deviation 1
    hidden: int = 1024  # units of the hidden layer of Φ and of Ψ
    embedding: int = 32  # E
    state_layers: tuple[int, ...] = ()  # sizes of an encoder of the state before the joint layers
    action_layers: tuple[int, ...] = ()  # sizes of an encoder of the action before the joint layers
    estimator: Literal["shared", "literal"] = "shared"  # pairs share rows and next actions, or nothing (slow)
    rows: int = 128  # B: rows a step, one half paired with the other; the literal estimator draws B pairs
    actions: int = 4  # n: next actions a step; for the literal estimator, a pair
    learning_rate: float = 1e-3
    target_rate: float = 0.005  # of the moving averages

    def __post_init__(self):
        choices(self)
        within(self, "[0, 1)", "discount")
        not_negative(self, "action_weight", "state_weight")  # else d would not be a pseudometric
        counts(self, "rows", "actions", "hidden", "embedding")
        if self.estimator == "shared" and self.rows % 2:
            raise PloffError(f"rows must be even, one half is paired with the other; got {self.rows}")
        within(self, "(0, 1]", "target_rate")
        positive(self, "learning_rate")

    @classmethod
    def paper(cls, **changes) -> "MetricConfig":
        """The printed losses: uniform next actions, nothing clipped, raw observations, 256 rows a step.

        Their means are estimated as fast as the default's. `estimator="literal"` draws as printed, too: 256 pairs that
        share nothing, 256 next actions each.
        """
        printed = {
            "next_actions": "uniform",
            "action_weight": 0.0,
            "state_weight": 0.0,
            "bounded": False,
            "standardise": False,
            "rows": 256,
            "actions": 256 if changes.get("estimator") == "literal" else cls.actions,
        }
        return cls(**{**printed, **changes})

    @classmethod
    def exact_operator(cls, **changes) -> "MetricConfig":
        """The fast default's learner for the paper's own operator: what exact distances can be held against."""
        own = {
            "next_actions": "uniform",
            "action_weight": 0.0,
            "state_weight": 0.0,
            "standardise": False,
            "bounded": False,  # exact distances reach the bound, and a ball bends what is near it
        }
        return cls(**{**own, **changes})


def norm(x: Float[Array, "*B E"]) -> Float[Array, "*B"]:
    """‖x‖₂ over the last axis, with a finite gradient (zero) where x is zero."""
    squared = jnp.sum(jnp.square(x), axis=-1)
    zero = squared == 0
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, squared)))


def root_mean_square(x: Float[Array, "*B S"]) -> Float[Array, "*B"]:
    """‖x‖₂ / √S: a length that does not grow with the number of dimensions."""
    return norm(x) / math.sqrt(x.shape[-1])


def into_ball(x: Float[Array, "*B E"], radius: float | Array) -> Float[Array, "*B E"]:
    """Maps all of space into the open ball, near its centre the identity: two images are less than 2·radius apart."""
    return x * (radius / jnp.sqrt(radius**2 + jnp.sum(jnp.square(x), axis=-1, keepdims=True)))


class Pseudometric(eqx.Module):
    """Φ and Ψ with what turns them into distances. Observations come in the units that it was trained in."""

    pair_encoder: PairEncoder
    state_encoder: StateEncoder
    radius: float = eqx.field(static=True)  # of the ball that embeddings lie in; infinite where they are free
    action_scale: tuple[float, ...] = eqx.field(static=True)  # of each action in its own term

    def embed_states(self, observations: Float[Array, "*B S"]) -> Float[Array, "*B E"]:
        """Ψ(s)."""
        return self._placed(self.state_encoder(observations))

    def embed_pairs(
        self, observations: Float[Array, "*B S"], actions: Float[Array, "*B A"]
    ) -> Float[Array, "*B E+A"]:
        """Φ(s, a), and behind it the action in the units of its own term: what `pair_distance` compares."""
        learned = self._placed(self.pair_encoder(observations, actions))
        return jnp.concatenate([learned, actions * jnp.asarray(self.action_scale)], axis=-1)

    def pair_distance(self, x: Float[Array, "*B E+A"], y: Float[Array, "*B E+A"]) -> Float[Array, "*B"]:
        """The distance d between pairs that `embed_pairs` embedded."""
        difference, width = x - y, self.pair_encoder.last.weight.shape[-1]
        return norm(difference[..., :width]) + norm(difference[..., width:])

    def state_distance(self, x: Float[Array, "*B E"], y: Float[Array, "*B E"]) -> Float[Array, "*B"]:
        """The distance D between states that `embed_states` embedded."""
        return norm(x - y)

    def phi(self, observations: Float[Array, "*B S"], actions: Float[Array, "*B A"]) -> Float[Array, "*B E"]:
        """Φ(s, a) alone: the learned part of a pair's embedding."""
        return self._placed(self.pair_encoder(observations, actions))

    def phi_over_actions(self, observations: Float[Array, "B *S"], actions: Float[Array, "n A"]) -> Array:
        """Φ(s, u) for every action and state, [n, B, E]."""
        return self._placed(self.pair_encoder.over_actions(observations, actions))

    def _placed(self, x: Array) -> Array:
        return into_ball(x, self.radius) if math.isfinite(self.radius) else x


def bound(data: Transitions, config: MetricConfig) -> float:
    """The largest learned distance there can be: (r_max − r_min + v · diameter of the states) / (1 − γ)."""
    rewards = np.asarray(data.rewards)
    spread = float(rewards.max() - rewards.min()) / float(data.reward_units.scale)
    if config.state_weight:
        states = np.asarray(data.observations)
        extent = (states.max(axis=0).astype(np.float64) - states.min(axis=0)) / data.observation_units.scale
        spread += config.state_weight * float(np.sqrt(np.mean(np.square(extent))))
    return spread / (1 - config.discount)


def typical_action_difference(data: Transitions, draws: int = 10_000, seed: int = 0) -> float:
    """The mean of |a₁ − a₂| over pairs drawn from the log, in units of half an action's range."""
    rows = np.random.default_rng(seed).integers(0, len(data), (2, draws))
    first, second = (np.asarray(data.action_space.encode(np.asarray(data.actions)[r])) for r in rows)
    apart = (first - second) / data.action_space.unit
    return float(np.mean(np.sqrt(np.mean(np.square(apart), axis=-1))))


def build(
    key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, config: MetricConfig, limit: float
) -> Pseudometric:
    """A pseudometric with random networks; `limit` is the largest distance there can be. Its w is still 0."""
    phi_key, psi_key = jax.random.split(key)
    sizes = (config.hidden, config.embedding, config.state_layers)
    return Pseudometric(
        pair_encoder=PairEncoder.init(phi_key, shape, space.width, *sizes, config.action_layers),
        state_encoder=StateEncoder.init(psi_key, shape, *sizes),
        radius=0.5 * limit if config.bounded else math.inf,
        action_scale=(0.0,) * space.width,
    )
