"""The operators from samples: F̂, and its averaged form for stochastic MDPs.

A sample is a pair of transitions x = (s₁,a₁) → r₁,s₁′ and y = (s₂,a₂) → r₂,s₂′. It moves one entry:

    d(x;y) ← (1 − α) d(x;y) + α (|r₁ − r₂| + v‖s₁ − s₂‖ + w‖a₁ − a₂‖ + γ E_{u~ρ} d(s₁′,u; s₂′,u)).

α = 1 is F̂ (paper, section 3.3): right where every transition is certain. Where it is not, F̂ overwrites one
draw by the next for ever. A step α = n^−p at the n-th visit of the entry, ½ < p ≤ 1, averages instead
(Robbins and Monro: Σα = ∞, Σα² < ∞), and d converges almost surely to the fixed point of `independent`, if
every pair keeps being drawn.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ploff.theory.mdp import FiniteMDP
from ploff.theory.operators import Operator, PairDistances
from ploff.utils.errors import PloffError


class Steps(NamedTuple):
    """K transitions in numbers."""

    states: Int[np.ndarray, "K"]
    actions: Int[np.ndarray, "K"]
    rewards: Float[np.ndarray, "K"]
    next_states: Int[np.ndarray, "K"]


class Averages(NamedTuple):
    """A distance that is being learned from samples."""

    distances: PairDistances
    visits: Int[np.ndarray, "S A S A"]  # how often each entry was moved


def draw_steps(mdp: FiniteMDP, count: int, rng: np.random.Generator) -> Steps:
    """Transitions of uniformly drawn state-action pairs, each with a next state of its own."""
    states = rng.integers(mdp.num_states, size=count)
    actions = rng.integers(mdp.num_actions, size=count)
    if mdp.successors is not None:
        return Steps(states, actions, mdp.rewards[states, actions], mdp.successors[states, actions])
    cumulated = np.cumsum(mdp.probabilities, axis=-1)[states, actions]
    # The last sum may round to just under 1: scaling keeps every draw inside.
    thresholds = rng.random(count)[:, None] * cumulated[:, -1:]
    return Steps(states, actions, mdp.rewards[states, actions], (cumulated <= thresholds).sum(axis=1))


def apply_samples(
    operator: Operator, start: Averages | Any, first: Steps, second: Steps, *, decay: float = 0.0
) -> Averages:
    """Moves the entries of K pairs of transitions, one after the other.

    Args:
      operator: γ, w, ρ, and whether a pair's distance to itself is pinned to 0.
      start: a distance, shape [S, A, S, A], or what an earlier call returned.
      first: the pairs' first transitions.
      second: their second transitions.
      decay: p of α = n^−p. 0 is F̂; stochastic MDPs need ½ < p ≤ 1.
    """
    if decay != 0 and not 0.5 < decay <= 1:
        raise PloffError(f"decay must be 0 (for certain transitions) or lie in (0.5, 1], got {decay}")
    if not isinstance(start, Averages):
        start = Averages(np.asarray(start), np.zeros(np.shape(start), np.int32))
    with jax.enable_x64(True):
        carry = jnp.asarray(start.distances, jnp.float64), jnp.asarray(start.visits)
        distances, visits = _scan(operator, carry, (first, second), np.float64(decay))
    return Averages(np.asarray(distances), np.asarray(visits))


@eqx.filter_jit
def _scan(
    operator: Operator, carry: tuple[Array, Array], pairs: tuple[Steps, Steps], decay: float | Array
) -> tuple[Array, Array]:
    actions = jnp.arange(operator.mdp.num_actions)

    def visit(carry, pair):
        distances, visits = carry
        one, two = pair
        entry = one.states, one.actions, two.states, two.actions
        shared = operator.next_actions @ distances[one.next_states, actions, two.next_states, actions]
        cost = jnp.abs(one.rewards - two.rewards) + operator.action_costs[one.actions, two.actions]
        cost = cost + operator.state_costs[one.states, two.states]
        target = cost + operator.discount * shared
        if operator.pinned:
            target = jnp.where((one.states == two.states) & (one.actions == two.actions), 0.0, target)
        visits = visits.at[entry].add(1)
        step = visits[entry].astype(distances.dtype) ** -decay
        return (distances.at[entry].add(step * (target - distances[entry])), visits), None

    return jax.lax.scan(visit, carry, jax.tree.map(jnp.asarray, pairs))[0]
