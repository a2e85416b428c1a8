"""Operators on distances between state-action pairs, and their fixed points.

Shapes: S states, A actions. A distance d has shape [S, A, S, A]; its mean over a shared next action,

    D(s,t) = E_{u~ρ} d(s,u; t,u),

has shape [S, S]. Every operator here has the form

    (T d)(s₁,a₁; s₂,a₂) = |r(s₁,a₁) − r(s₂,a₂)| + v‖s₁ − s₂‖ + w‖a₁ − a₂‖ + γ E[D(s₁′,s₂′)].

- `bellman`: deterministic MDPs. The paper's F has v = w = 0 and ρ = U(A); with another v, w or ρ it is F_w.
- `independent`: any MDP; s₁′ and s₂′ are drawn independently. On a deterministic MDP it is F_w again.
  `pinned` sets the distance of a pair to itself to 0, as the norm of a difference of embeddings does.

Both contract by γ in the sup norm, so each has one fixed point. The w-term vanishes in D, where both sides
take the same action: D* does not depend on w, and d* is the d* of w = 0 plus w‖a₁ − a₂‖. The v-term, of any
pseudometric on states, is paid at every step.

Everything is computed in double precision, whatever JAX's own setting: NumPy arrays go in and come out.
"""

import math
from typing import Any, NamedTuple, TypedDict, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ploff.theory.mdp import FiniteMDP
from ploff.utils.errors import PloffError

PairDistances = Float[np.ndarray, "S A S A"]
StateDistances = Float[np.ndarray, "S S"]


class FixedPoint(NamedTuple):
    """The limit of T, T², T³ …, as far as it was followed."""

    distances: PairDistances
    sweeps: int
    error_bound: float  # no entry is further than this from the exact fixed point, rounding included


class Operator(eqx.Module):
    """T of the module's text, as data; `bellman` and `independent` make one."""

    mdp: FiniteMDP
    state_costs: Float[np.ndarray, "S S"]  # v‖s₁ − s₂‖
    action_costs: Float[np.ndarray, "A A"]  # w‖a₁ − a₂‖
    next_actions: Float[np.ndarray, "A"]  # ρ
    discount: np.float64  # γ, an array type: a Python number would be compiled in
    pinned: bool = eqx.field(static=True)  # d(x,x) = 0, whatever follows

    def __call__(self, distances: Any) -> PairDistances:
        """T d: one sweep over all pairs of state-action pairs."""
        with jax.enable_x64(True):
            return np.asarray(_sweep(self, jnp.asarray(distances, jnp.float64)))

    def zero(self) -> PairDistances:
        """The distance that is 0 everywhere: where iteration begins unless told otherwise."""
        shape = self.mdp.rewards.shape
        return np.zeros((*shape, *shape))

    @property
    def bound(self) -> float:
        """No fixed point exceeds (max r − min r + v·diam S)/(1 − γ) + w·diam A: the w-term is paid only once."""
        each_step = self.mdp.reward_range + float(self.state_costs.max())
        return each_step / (1 - self.discount) + float(self.action_costs.max())


class OwnTerms(TypedDict, total=False):
    """What F_w adds to the paper's F; `independent` explains each."""

    state_weight: float
    state_distances: Any
    action_weight: float
    action_distances: Any
    next_actions: Any


def bellman(mdp: FiniteMDP, *, discount: float, **own_terms: Unpack[OwnTerms]) -> Operator:
    """F of a deterministic MDP; with weights of states and actions or another ρ, F_w.

    Raises:
      PloffError: the MDP is stochastic.
    """
    if mdp.successors is None:
        raise PloffError("F is defined on deterministic MDPs and this one is stochastic; `independent` takes any MDP")
    return independent(mdp, discount=discount, **own_terms)


def independent(
    mdp: FiniteMDP,
    *,
    discount: float,
    state_weight: float = 0.0,
    state_distances: Any = None,
    action_weight: float = 0.0,
    action_distances: Any = None,
    next_actions: Any = None,
    pinned: bool = False,
) -> Operator:
    """The operator whose two next states are drawn independently.

    Args:
      mdp: deterministic or stochastic.
      discount: γ in [0, 1).
      state_weight: v ≥ 0.
      state_distances: ‖s₁ − s₂‖, shape [S, S], a pseudometric. None: one-hot vectors, √2 apart.
      action_weight: w ≥ 0.
      action_distances: ‖a₁ − a₂‖, shape [A, A], likewise.
      next_actions: ρ, shape [A]. None: uniform.
      pinned: a pair's distance to itself is 0, not what its two independent futures differ by.
    """
    states, count = mdp.num_states, mdp.num_actions
    if not 0 <= discount < 1:
        raise PloffError(f"discount must lie in [0, 1), got {discount}")
    for name, weight in (("state_weight", state_weight), ("action_weight", action_weight)):
        if weight < 0:
            raise PloffError(f"{name} must not be negative, got {weight}")
    state_costs = state_weight * _distances("state_distances", state_distances, states)
    action_costs = action_weight * _distances("action_distances", action_distances, count)
    chances = np.full(count, 1 / count) if next_actions is None else np.asarray(next_actions, float)
    if chances.shape != (count,) or (chances < 0).any() or not math.isclose(chances.sum(), 1, abs_tol=1e-9):
        raise PloffError(f"next_actions must be {count} probabilities that sum to 1, got {chances}")
    return Operator(mdp, state_costs, action_costs, chances, np.float64(discount), pinned)


def _distances(name: str, given: Any, count: int) -> Float[np.ndarray, "n n"]:
    """The distances that were given, or those of one-hot vectors."""
    apart = math.sqrt(2) * (1 - np.eye(count)) if given is None else np.asarray(given, float)
    if apart.shape != (count, count):
        raise PloffError(f"{name} must have shape ({count}, {count}), got {apart.shape}")
    return apart


def over_shared_actions(distances: Any, next_actions: Any) -> StateDistances:
    """D(s,t) = E_{u~ρ} d(s,u; t,u)."""
    return np.einsum("suTu,u->sT", distances, next_actions, optimize=True)


def iterate(operator: Operator, start: Any = None, tolerance: float = 1e-9) -> FixedPoint:
    """T applied again and again, until no entry can be further than `tolerance` from the fixed point.

    From δ = max|dₙ − dₙ₋₁| the error is at most (γδ + κ)/(1 − γ), where κ bounds the rounding of one sweep.
    Ahead of time, γⁿ max|d₀ − T d₀|/(1 − γ) bounds it too, and the number of sweeps with it.

    Raises:
      PloffError: a tolerance that double precision cannot reach.
    """
    start = operator.zero() if start is None else np.asarray(start, np.float64)
    discount = operator.discount
    rounding = _rounding(operator, float(np.max(np.abs(start)))) / (1 - discount)
    if rounding >= tolerance:
        raise PloffError(f"tolerance {tolerance:.1e} is below the rounding error {rounding:.1e}; allow more")
    with jax.enable_x64(True):
        step = (tolerance - rounding) * (1 - discount) / max(discount, 1e-300)
        distances, sweeps, change = _iterate(operator, jnp.asarray(start), step)
    return FixedPoint(np.asarray(distances), int(sweeps), rounding + discount * float(change) / (1 - discount))


@eqx.filter_jit
def _sweep(operator: Operator, distances: Float[Array, "S A S A"]) -> Float[Array, "S A S A"]:
    mdp = operator.mdp
    shared = jnp.einsum("suTu,u->sT", distances, operator.next_actions)
    if mdp.successors is not None:
        states = mdp.successors.reshape(-1)
        following = shared[states][:, states]
    else:
        chances = mdp.probabilities.reshape(-1, mdp.num_states)
        following = chances @ shared @ chances.T
    following = following.reshape(distances.shape)
    gaps = jnp.abs(mdp.rewards[:, :, None, None] - mdp.rewards)
    own = operator.state_costs[:, None, :, None] + operator.action_costs[:, None, :]
    swept = gaps + own + operator.discount * following
    if not operator.pinned:
        return swept
    itself = jnp.eye(mdp.rewards.size, dtype=bool).reshape(distances.shape)
    return jnp.where(itself, 0.0, swept)


@eqx.filter_jit
def _iterate(
    operator: Operator, start: Float[Array, "S A S A"], step: float | Array
) -> tuple[Float[Array, "S A S A"], Array, Array]:
    """Sweeps until the largest change is at most `step`, or until contraction says that it must be."""
    first = _sweep(operator, start)
    change = jnp.max(jnp.abs(first - start))
    shrink = jnp.log(jnp.maximum(operator.discount, 1e-300))
    enough = 2 + jnp.ceil(jnp.log(step / jnp.maximum(change, step)) / shrink)

    def unsettled(carry):
        _, sweeps, change = carry
        return (change > step) & (sweeps < enough)

    def sweep(carry):
        distances, sweeps, _ = carry
        swept = _sweep(operator, distances)
        return swept, sweeps + 1, jnp.max(jnp.abs(swept - distances))

    return jax.lax.while_loop(unsettled, sweep, (first, jnp.asarray(1), change))


def _rounding(operator: Operator, start: float) -> float:
    """κ: what rounding can add in one sweep: a sum of so many terms, none above the largest distance."""
    states = 1 if operator.mdp.successors is not None else 2 * operator.mdp.num_states
    terms = operator.mdp.num_actions + states + 4
    return terms * np.finfo(np.float64).eps * max(operator.bound, start)
