"""The gridworld's distances learned from a log, and held against the exact ones.

Errors are shares of the mean exact distance. Shapes: S states, A actions.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining, learn_metric
from ploff.theory.gridworld import as_steps
from ploff.transitions import Transitions

TIMES = (0, 1, 5, 10, 20)  # where groups of states begin, by how often their rarest action was logged


class VisitGroup(NamedTuple):
    """States whose rarest action was logged about as often, and the error of their distances to all others."""

    times: str
    states: int
    error: float


def learn_distances(
    log: Transitions, discount: float, steps: int, seed: int, quiet: bool = False
) -> Float[np.ndarray, "S S"]:
    """d_Ψ between all states: the paper's own operator, learned from a log of one-hot states."""
    config = MetricConfig.exact_operator(discount=discount, tau=0.02)
    training = MetricTraining(
        steps=steps,
        early_stopping=False,
        check_every=steps,
        scan_length=math.gcd(steps, 500),
        validation_fraction=0.0,
        seed=seed,
    )
    learned = learn_metric(log, config, training, quiet=quiet)
    return learned.state_distances(np.eye(log.observation_shape[0], dtype=np.float32))


def relative_error(learned: Float[np.ndarray, "S S"], exact: Float[np.ndarray, "S S"]) -> float:
    """The mean of |d − d*| over that of d*."""
    return float(np.abs(learned - exact).mean() / exact.mean())


def state_errors(learned: Float[np.ndarray, "S S"], exact: Float[np.ndarray, "S S"]) -> Float[np.ndarray, "S"]:
    """Each state's part: the mean error of its distances to all states, over the mean exact distance of all."""
    return np.abs(learned - exact).mean(axis=1) / exact.mean()


def count_visits(log: Transitions) -> Int[np.ndarray, "S A"]:
    """How often each action was logged in each state."""
    steps, counts = as_steps(log), np.zeros((log.observation_shape[0], log.action_space.n), np.int64)
    np.add.at(counts, (steps.states, steps.actions), 1)
    return counts


def errors_by_visits(
    learned: Float[np.ndarray, "S S"], exact: Float[np.ndarray, "S S"], visits: Int[np.ndarray, "S A"]
) -> list[VisitGroup]:
    """Mean errors of states whose rarest action was logged about as often; groups without a state are left out."""
    rarest, errors, groups = visits.min(axis=1), state_errors(learned, exact), []
    for first, following in zip(TIMES, (*TIMES[1:], math.inf), strict=True):
        chosen = (rarest >= first) & (rarest < following)
        if math.isinf(following):
            name = f"{first} or more"
        else:
            name = str(first) if following == first + 1 else f"{first} to {int(following) - 1}"
        if chosen.any():
            groups.append(VisitGroup(name, int(chosen.sum()), float(errors[chosen].mean())))
    return groups
