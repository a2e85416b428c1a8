r"""The pseudometric d on state-action pairs (paper, section 3.4, and two terms past it).

    d(s₁,a₁; s₂,a₂) = √(‖Φ(s₁,a₁) − Φ(s₂,a₂)‖² + w²|a₁ − a₂|²)        D(s₁; s₂) = ‖Ψ(s₁) − Ψ(s₂)‖

    ‖Φ(s₁,a₁) − Φ(s₂,a₂)‖ ≈ |r₁ − r₂| + v|s₁ − s₂| + γ D(s₁′; s₂′)        D(s₁; s₂) ≈ E_{u∼ρ} ‖Φ(s₁,u) − Φ(s₂,u)‖

|·| between actions, and between states, is the root mean square over their dimensions; the paper has v = w = 0 and
ρ = U(A). The same u stands on both sides, so the term in w vanishes under the expectation: D is what it is without it.
It is added to the learned distance in quadrature, not learned, and therefore exact; one embedding holds both.

Embeddings lie in a ball whose diameter is the largest distance there can be (`distance_bound`), so that nothing
diverges, not even at actions that the log does not contain. `ploff.metric.train` learns Φ and Ψ.

Shapes: B rows, S observation, A action, E embedding, P pair's embedding.
"""

import dataclasses
import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.metric.networks import PairEncoder, StateEncoder
from ploff.transitions import Transitions
from ploff.utils.arrays import blocks
from ploff.utils.config import (
    check_choices,
    check_counts,
    check_not_negative,
    check_positive,
    check_sizes,
    check_within,
)
from ploff.utils.errors import PloffError


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricConfig:
    """How the pseudometric is defined and learned; `MetricConfig.paper()` has the printed losses."""

    discount: float = 0.9  # γ of the metric
    next_actions: Literal["log", "uniform"] = "log"  # ρ
    action_weight: float = 1.0  # w, in units of the log: at 1, actions weigh as much as what is learned
    state_weight: float = 0.3  # v
    ends: bool = True  # terminals lead to an end of their own, which pays nothing and which nothing leaves
    bounded: bool = True  # embeddings in a ball, targets clipped: no distance can exceed its bound
    normalize_observations: bool = True  # to mean 0 and deviation 1
    hidden_sizes: tuple[int, ...] = (1024,)  # of Φ and of Ψ
    embedding_size: int = 32  # E
    state_encoder_sizes: tuple[int, ...] = ()  # layers on the state before the joint ones
    action_encoder_sizes: tuple[int, ...] = ()  # layers on the action before the joint ones
    estimator: Literal["shared", "literal"] = "shared"  # pairs share rows and next actions, or nothing (slow)
    batch_size: int = 128  # B: rows per step, one half paired with the other; "literal" draws B pairs
    num_next_actions: int = 4  # n: next actions per step; for "literal", per pair
    lr: float = 1e-3  # learning rate of Adam
    tau: float = 0.005  # rate of the target networks

    def __post_init__(self):
        check_choices(self)
        check_within(self, "[0, 1)", "discount")
        check_not_negative(self, "action_weight", "state_weight")  # else d would not be a pseudometric
        check_counts(self, "batch_size", "num_next_actions", "embedding_size")
        check_sizes(self, "hidden_sizes")
        if self.estimator == "shared" and self.batch_size % 2:
            raise PloffError(f"batch_size must be even, one half is paired with the other; got {self.batch_size}")
        check_within(self, "(0, 1]", "tau")
        check_positive(self, "lr")

    @classmethod
    def paper(cls, **changes) -> "MetricConfig":
        """The printed losses: uniform next actions, nothing clipped, raw observations, 256 rows per step.

        Their means are estimated as fast as the default's. `estimator="literal"` draws as printed, too: 256 pairs that
        share nothing, 256 next actions each.
        """
        printed = {
            "next_actions": "uniform",
            "action_weight": 0.0,
            "state_weight": 0.0,
            "ends": False,
            "bounded": False,
            "normalize_observations": False,
            "batch_size": 256,
            "num_next_actions": 256 if changes.get("estimator") == "literal" else cls.num_next_actions,
        }
        return cls(**{**printed, **changes})

    @classmethod
    def exact_operator(cls, **changes) -> "MetricConfig":
        """The fast default's learner for the paper's own operator: what exact distances can be held against."""
        own = {
            "next_actions": "uniform",
            "action_weight": 0.0,
            "state_weight": 0.0,
            "normalize_observations": False,
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
    """Maps all of space into the open ball, near its center the identity: two images are less than 2·radius apart."""
    return x * (radius / jnp.sqrt(radius**2 + jnp.sum(jnp.square(x), axis=-1, keepdims=True)))


class Pseudometric(eqx.Module):
    """Φ and Ψ with what turns them into distances. Observations come in the units that it was trained in."""

    pair_encoder: PairEncoder
    state_encoder: StateEncoder
    radius: float = eqx.field(static=True)  # of the ball that embeddings lie in; infinite where they are free
    action_scale: tuple[float, ...] = eqx.field(static=True)  # of each action in its own term

    @property
    def embedding_size(self) -> int:
        """E: the size of the learned embedding."""
        return self.pair_encoder.rest.layers[-1].weight.shape[-1]

    @property
    def has_end(self) -> bool:
        """Whether the end is a state of its own."""
        return self.state_encoder.has_end

    def embed_states(
        self, observations: Float[Array, "..."], ended: Bool[Array, "*B"] | None = None
    ) -> Float[Array, "*B E"]:
        """Ψ(s); of the end where `ended` says so."""
        return self._in_ball(self.state_encoder(observations, ended))

    def embed_pairs(self, observations: Float[Array, "..."], actions: Float[Array, "*B A"]) -> Float[Array, "*B P"]:
        """Φ(s, a), and behind it the action in the units of its own term: what `pair_distance` compares."""
        return jnp.concatenate([self.phi(observations, actions), actions * jnp.asarray(self.action_scale)], axis=-1)

    def pair_distance(self, x: Float[Array, "*#B P"], y: Float[Array, "*#B P"]) -> Float[Array, "..."]:
        """The distance d between pairs that `embed_pairs` embedded."""
        return norm(x - y)

    def state_distance(self, x: Float[Array, "*#B E"], y: Float[Array, "*#B E"]) -> Float[Array, "..."]:
        """The distance D between states that `embed_states` embedded."""
        return norm(x - y)

    def phi(
        self,
        observations: Float[Array, "..."],
        actions: Float[Array, "*B A"],
        ended: Bool[Array, "*B"] | None = None,
    ) -> Float[Array, "*B E"]:
        """Φ(s, a) alone: the learned part of a pair's embedding; s is the end where `ended` says so."""
        return self._in_ball(self.pair_encoder(observations, actions, ended))

    def phi_over_actions(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "n A"], ended: Bool[Array, "B"] | None = None
    ) -> Array:
        """Φ(s, u) for every action and state, [n, B, E]."""
        return self._in_ball(self.pair_encoder.over_actions(observations, actions, ended))

    def _in_ball(self, x: Array) -> Array:
        return into_ball(x, self.radius) if math.isfinite(self.radius) else x


def distance_bound(data: Transitions, config: MetricConfig) -> float:
    """The largest learned distance there can be: (r_max − r_min + v · diameter of the states) / (1 − γ)."""
    rewards, has_end = data.reward_normalizer.normalize(np.asarray(data.rewards, np.float64)), sees_ends(data, config)
    spread = float(np.ptp(np.append(rewards, 0.0) if has_end else rewards))  # the end pays 0
    if config.state_weight:
        extremes = [
            (block.min(axis=0), block.max(axis=0))
            for block in map(data.observation_normalizer.normalize, blocks(np.asarray(data.observations)))
        ]
        lows, highs = (np.stack(ends) for ends in zip(*extremes, strict=True))
        extent = highs.max(axis=0).astype(np.float64) - lows.min(axis=0)
        extent = np.append(extent, 1.0) if has_end else extent
        spread += config.state_weight * float(np.sqrt(np.mean(np.square(extent))))
    return spread / (1 - config.discount)


def sees_ends(data: Transitions, config: MetricConfig) -> bool:
    """Whether the end is among the states of the metric: it is where the log has terminals."""
    return config.ends and bool(np.any(np.asarray(data.terminals)))


def mean_action_distance(data: Transitions, draws: int = 10_000, seed: int = 0) -> float:
    """The mean of |a₁ − a₂| over pairs drawn from the log, in units of half an action's range."""
    rows = np.random.default_rng(seed).integers(0, len(data), (2, draws))
    first, second = (np.asarray(data.action_space.encode(np.asarray(data.actions)[r])) for r in rows)
    apart = (first - second) / data.action_space.unit
    return float(np.mean(np.sqrt(np.mean(np.square(apart), axis=-1))))


def build_metric(
    key: PRNGKeyArray,
    shape: tuple[int, ...],
    space: ActionSpace,
    config: MetricConfig,
    limit: float,
    *,
    has_end: bool = False,
) -> Pseudometric:
    """A pseudometric with random networks; `limit` is the largest distance there can be. Its w is still 0."""
    phi_key, psi_key = jax.random.split(key)
    sizes = (config.hidden_sizes, config.embedding_size, config.state_encoder_sizes)
    return Pseudometric(
        pair_encoder=PairEncoder.init(
            phi_key, shape, space.width, *sizes, config.action_encoder_sizes, has_end=has_end
        ),
        state_encoder=StateEncoder.init(psi_key, shape, *sizes, has_end=has_end),
        radius=0.5 * limit if config.bounded else math.inf,
        action_scale=(0.0,) * space.width,
    )
