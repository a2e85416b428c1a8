"""Fixed points by linear algebra: what iteration approaches, at once.

Shapes: S states, A actions. The fixed point of every operator in `ploff.theory.operators` solves

    D = C + γ Σ_u ρ(u) P_u D P_uᵀ,      C(s,t) = Σ_u ρ(u) |r(s,u) − r(t,u)| + v‖s − t‖,

where P_u[s, s′] = P(s′ | s,u). These are S² numbers, not (SA)²; one application of the operator to D* gives
d*. D is symmetric, so only pairs s ≤ t are unknown. States at distance 0 from themselves (in a deterministic
MDP, or pinned) leave s < t.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from ploff.theory.mdp import FiniteMDP
from ploff.theory.operators import Operator, PairDistances, StateDistances, bellman

DENSE_FROM = 0.1  # share of non-zero probabilities from which dense algebra is the faster one


def solve(operator: Operator) -> PairDistances:
    """The fixed point d*, to rounding."""
    shared = solve_states(operator)
    shape = operator.mdp.rewards.shape
    # Any d with this mean over shared actions will do: the operator reads nothing else of it.
    return operator(np.broadcast_to(shared[:, None, :, None], (*shape, *shape)))


def solve_states(operator: Operator) -> StateDistances:
    """D*(s,t) = E_{u~ρ} d*(s,u; t,u) alone."""
    mdp = operator.mdp
    count = mdp.num_states
    zero_to_itself = operator.pinned or mdp.successors is not None
    low, high = np.triu_indices(count, k=int(zero_to_itself))
    if not len(low):
        return np.zeros((count, count))
    unfold = _unfolding(low, high, count)
    gaps = np.abs(mdp.rewards[low] - mdp.rewards[high]) @ operator.next_actions + operator.state_costs[low, high]
    onward = operator.discount * (_onward(operator)[low * count + high] @ unfold)
    return (unfold @ _solve_identity_minus(onward, gaps)).reshape(count, count)


def exact_state_distances(mdp: FiniteMDP, discount: float) -> StateDistances:
    """D* of the paper's F on a deterministic MDP, uniform ρ: what the learned d_Ψ is held against."""
    return solve_states(bellman(mdp, discount=discount))


def _unfolding(low: np.ndarray, high: np.ndarray, count: int) -> Any:
    """The matrix from unknowns to all S² pairs: each to (s,t) and to (t,s), none to a pair known to be 0."""
    unknowns = np.arange(len(low))
    mirrored = low != high
    rows = np.concatenate([low * count + high, (high * count + low)[mirrored]])
    columns = np.concatenate([unknowns, unknowns[mirrored]])
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(count**2, len(low)))


def _onward(operator: Operator) -> Any:
    """Σ_u ρ(u) P_u ⊗ P_u: the chances of the next pair of states, a row for every pair; sparse where P is."""
    by_action = operator.mdp.probabilities.transpose(1, 0, 2)
    if np.count_nonzero(by_action) >= DENSE_FROM * by_action.size:
        return sum(rho * np.kron(p, p) for rho, p in zip(operator.next_actions, by_action, strict=True))
    matrices = (sparse.csr_array(p) for p in by_action)
    terms = (rho * sparse.kron(p, p, format="csr") for rho, p in zip(operator.next_actions, matrices, strict=True))
    return sum(terms)


def _solve_identity_minus(matrix: Any, right: np.ndarray) -> np.ndarray:
    """X of (I − matrix) x = right."""
    if isinstance(matrix, np.ndarray):
        return np.linalg.solve(np.eye(len(right)) - matrix, right)
    solution: Any = linalg.spsolve((sparse.eye_array(len(right)) - matrix).tocsc(), right)
    return np.atleast_1d(solution)
