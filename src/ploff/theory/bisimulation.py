"""Bisimulation metrics on states, for comparison (Ferns and others, 2004).

Shapes: S states, A actions.

    (F_S d)(s;t) = max_a |r(s,a) − r(t,a)| + γ W₁(d)(P(s,a), P(t,a))

W₁(d) is the least cost of carrying one distribution of states into the other, where a unit of mass from s to
t costs d(s;t). It never grows faster than d, so F_S contracts by γ. On a deterministic MDP W₁(d) is d(s′;t′).
"""

from typing import Any, NamedTuple

import numpy as np

from ploff.theory.mdp import FiniteMDP
from ploff.theory.operators import StateDistances
from ploff.utils.errors import PloffError, require


class Bisimulation(NamedTuple):
    """The limit of F_S, F_S² …, as far as it was followed."""

    distances: StateDistances
    sweeps: int
    error_bound: float  # γδ/(1 − γ), δ the largest change of the last sweep; without rounding


def wasserstein(p: Any, q: Any, costs: Any) -> float:
    """W₁: the least cost of carrying distribution p into q, exact (a network simplex).

    Args:
      p: probabilities, shape [S].
      q: probabilities, shape [S].
      costs: what a unit of mass costs from one state to another, shape [S, S].
    """
    ot = require("ot", extra="theory")
    p, q, costs = (np.asarray(x, np.float64) for x in (p, q, costs))
    here, there = np.flatnonzero(p), np.flatnonzero(q)
    return float(ot.emd2(p[here] / p.sum(), q[there] / q.sum(), np.ascontiguousarray(costs[np.ix_(here, there)])))


def bisimulation(mdp: FiniteMDP, distances: Any, *, discount: float) -> StateDistances:
    """F_S d, with an optimal transport for every pair of states and every action."""
    distances = np.asarray(distances, np.float64)
    swept = np.zeros_like(distances)
    for s, t in zip(*np.triu_indices(mdp.num_states, k=1), strict=True):
        carried = [
            wasserstein(p, q, distances) for p, q in zip(mdp.probabilities[s], mdp.probabilities[t], strict=True)
        ]
        swept[s, t] = np.max(np.abs(mdp.rewards[s] - mdp.rewards[t]) + discount * np.asarray(carried))
    return swept + swept.T


def deterministic_bisimulation(mdp: FiniteMDP, distances: Any, *, discount: float) -> StateDistances:
    """F_S d of a deterministic MDP, where W₁(d) is the distance of the two next states."""
    if mdp.successors is None:
        raise PloffError("this MDP is stochastic: `bisimulation` solves the optimal transports that it needs")
    following = np.asarray(distances)[mdp.successors[:, None], mdp.successors[None]]
    return np.max(np.abs(mdp.rewards[:, None] - mdp.rewards) + discount * following, axis=-1)


def bisimulation_metric(mdp: FiniteMDP, *, discount: float, tolerance: float = 1e-6) -> Bisimulation:
    """The bisimulation metric: F_S iterated from 0 until no entry can be further off than `tolerance`."""
    if not 0 <= discount < 1:
        raise PloffError(f"discount must lie in [0, 1), got {discount}")
    if tolerance <= 0:
        raise PloffError(f"tolerance must be positive, got {tolerance}")
    sweep = bisimulation if mdp.successors is None else deterministic_bisimulation
    distances, sweeps = np.zeros((mdp.num_states, mdp.num_states)), 0
    while True:
        swept = sweep(mdp, distances, discount=discount)
        error = discount * float(np.max(np.abs(swept - distances))) / (1 - discount)
        distances, sweeps = swept, sweeps + 1
        if error <= tolerance:
            return Bisimulation(distances, sweeps, error)
