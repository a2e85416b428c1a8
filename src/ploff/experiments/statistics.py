r"""What scores of several runs on several tasks say, and how sure that is.

The measures are those of Agarwal et al. (2021, "Deep reinforcement learning at the edge of the statistical precipice").
Intervals come from the stratified bootstrap: each task's runs are drawn anew from that task's own, as many as it has.
A replicate is a row of counts c, how often each run was drawn, and every measure is a function of values and counts:

    mean               1/T Σ_t Σ_{i∈t} c_i x_i / n_t
    interquartile mean the mean of the middle half of all runs, those with counts repeated
    profile at τ       the share of runs with x > τ
    improvement        1/T Σ_t P(x_t > y_t) + P(x_t = y_t)/2

so that thousands of replicates are a few matrix products, and none is sorted.

Shapes: N runs on T tasks, B replicates, S thresholds.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from ploff.utils.errors import PloffError

REPLICATES = 2_000
CONFIDENCE = 0.95
Counts = Float[np.ndarray, "B N"]


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one method's runs; tasks may have different numbers of them."""

    values: Float[np.ndarray, "N"]
    tasks: Int[np.ndarray, "N"]  # 0 … T − 1, each at least once
    names: tuple[str, ...]  # of the T tasks

    @classmethod
    def of(cls, runs: Mapping[str, Sequence[float] | np.ndarray]) -> "Scores":
        """Scores from lists of them by task; a task without runs is left out."""
        kept = {task: np.asarray(scores, np.float64) for task, scores in runs.items() if len(scores)}
        if not kept:
            raise PloffError("there is no score to make a statistic of")
        sizes = [len(scores) for scores in kept.values()]
        return cls(np.concatenate(list(kept.values())), np.repeat(np.arange(len(kept)), sizes), tuple(kept))

    @property
    def sizes(self) -> Int[np.ndarray, "T"]:
        """The number of runs on each task."""
        return np.bincount(self.tasks, minlength=len(self.names))

    def of_task(self, task: str) -> Float[np.ndarray, "n"]:
        """The scores on one task; none if it was not run."""
        return self.values[self.tasks == self.names.index(task)] if task in self.names else np.zeros(0)

    def on(self, names: Sequence[str]) -> "Scores":
        """The scores on some of the tasks, in that order."""
        return Scores.of({name: self.of_task(name) for name in names})


@dataclasses.dataclass(frozen=True)
class Interval:
    """An estimate with the interval that its bootstrap replicates fall into."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.1f} [{self.low:.1f}, {self.high:.1f}]"


Measure = Callable[[Scores, Counts], Float[np.ndarray, "B"]]


def mean(scores: Scores, counts: Counts) -> Float[np.ndarray, "B"]:
    """The mean of the tasks' means."""
    weights = 1.0 / (len(scores.names) * scores.sizes[scores.tasks])
    return counts @ (scores.values * weights)


def interquartile_mean(scores: Scores, counts: Counts) -> Float[np.ndarray, "B"]:
    """The mean of the middle half of all runs: a quarter of them (rounded down) is cut off at each end."""
    order = np.argsort(scores.values, kind="stable")
    reached = np.cumsum(counts[:, order], axis=1)
    total = len(scores.values)
    cut = total // 4
    kept = np.diff(np.clip(reached, cut, total - cut), axis=1, prepend=cut)
    return kept @ scores.values[order] / (total - 2 * cut)


def optimality_gap(scores: Scores, counts: Counts, goal: float = 100.0) -> Float[np.ndarray, "B"]:
    """How far runs stay below the goal on average; those above it do not make up for others (the optimality gap)."""
    return counts @ np.maximum(goal - scores.values, 0.0) / len(scores.values)


def interval(
    scores: Scores,
    measure: Measure = interquartile_mean,
    *,
    confidence: float = CONFIDENCE,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Interval:
    """A measure with its stratified bootstrap interval, the same for the same seed."""
    drawn = measure(scores, resample(scores, replicates, np.random.default_rng(seed)))
    low, high = np.quantile(drawn, _ends(confidence))
    return Interval(float(measure(scores, _once(scores))[0]), float(low), float(high))


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """The share of runs above each threshold, with its interval at each."""

    thresholds: Float[np.ndarray, "S"]
    share: Float[np.ndarray, "S"]
    low: Float[np.ndarray, "S"]
    high: Float[np.ndarray, "S"]


def student_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Student's interval for the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    if error == 0:
        return float(np.mean(values)), float(np.mean(values))
    low, high = stats.t.interval(confidence, len(values) - 1, np.mean(values), error)
    return float(low), float(high)


def performance_profile(
    scores: Scores,
    thresholds: Float[np.ndarray, "S"],
    *,
    confidence: float = CONFIDENCE,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Profile:
    """The share of runs that score more than each threshold."""
    above = (scores.values[:, None] > thresholds).astype(np.float64)
    counts = resample(scores, replicates, np.random.default_rng(seed))
    low, high = np.quantile(counts @ above / len(above), _ends(confidence), axis=0)
    return Profile(np.asarray(thresholds), above.mean(axis=0), low, high)


def probability_of_improvement(
    first: Scores, second: Scores, *, confidence: float = CONFIDENCE, replicates: int = REPLICATES, seed: int = 0
) -> Interval:
    """How likely a run of the first method beats one of the second on the same task, over the tasks that both ran."""
    shared = [name for name in first.names if name in second.names]
    if not shared:
        raise PloffError("no task was run by both methods, so neither can be called better")
    first, second = first.on(shared), second.on(shared)
    rng = np.random.default_rng(seed)
    counts = resample(first, replicates, rng), resample(second, replicates, rng)
    low, high = np.quantile(_improvement(first, second, *counts), _ends(confidence))
    estimate = _improvement(first, second, _once(first), _once(second))
    return Interval(float(estimate[0]), float(low), float(high))


def _improvement(
    first: Scores, second: Scores, drawn: Counts, others: Float[np.ndarray, "B K"]
) -> Float[np.ndarray, "B"]:
    """A run counts 1 where it beats another of the same task, 1/2 where it equals it."""
    x, y = first.values[:, None], second.values
    wins = (x > y) + 0.5 * (x == y)
    pairs = (first.sizes * second.sizes)[first.tasks]
    wins = np.where(first.tasks[:, None] == second.tasks, wins / pairs[:, None], 0.0)
    return ((drawn @ wins) * others).sum(axis=1) / len(first.names)


def resample(scores: Scores, replicates: int, rng: np.random.Generator) -> Counts:
    """How often each run is drawn in each replicate, each task's runs from its own."""
    drawn = [rng.multinomial(size, np.full(size, 1.0 / size), replicates) for size in scores.sizes]
    return np.concatenate(drawn, axis=1).astype(np.float64)


def _once(scores: Scores) -> Counts:
    return np.ones((1, len(scores.values)))


def _ends(confidence: float) -> tuple[float, float]:
    if not 0 < confidence < 1:
        raise PloffError(f"confidence must lie in (0, 1), got {confidence}")
    return (1 - confidence) / 2, (1 + confidence) / 2
