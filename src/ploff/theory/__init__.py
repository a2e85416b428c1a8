"""Exact pseudometrics on finite MDPs (paper, section 3): the truth that a learned metric is held against."""

from ploff.theory.bisimulation import (
    Bisimulation,
    bisimulation,
    bisimulation_metric,
    deterministic_bisimulation,
    wasserstein,
)
from ploff.theory.linear import exact_state_distances, solve, solve_states
from ploff.theory.mdp import FiniteMDP
from ploff.theory.operators import FixedPoint, Operator, bellman, independent, iterate, over_shared_actions
from ploff.theory.sampled import Averages, Steps, apply_samples, draw_steps

__all__ = [
    "Averages",
    "Bisimulation",
    "FiniteMDP",
    "FixedPoint",
    "Operator",
    "Steps",
    "apply_samples",
    "bellman",
    "bisimulation",
    "bisimulation_metric",
    "deterministic_bisimulation",
    "draw_steps",
    "exact_state_distances",
    "independent",
    "iterate",
    "over_shared_actions",
    "solve",
    "solve_states",
    "wasserstein",
]
