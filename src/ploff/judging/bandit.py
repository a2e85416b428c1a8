r"""Spending few trials on several policies: upper confidence bounds that begin from what the judge says.

Policy i is worth μ_i, which the judge believes to be Gaussian around its estimate. A trial is one episode, whose return
varies around μ_i with a deviation σ. After n_i trials of mean x_i

    v_i = 1 / (1/τ_i² + n_i/σ²),   m_i = v_i (m⁰_i/τ_i² + n_i x_i/σ²),   next: argmax m_i + c √v_i

Shapes: P policies.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

WIDTH = 1.64  # c: the upper end of a 90% interval


@dataclasses.dataclass(frozen=True)
class Trial:
    """One episode of one policy, and which policy is thought to be best after it."""

    number: int
    policy: int
    value: float  # the episode's return
    best: int
    best_mean: float


class Bandit:
    """Beliefs about P policies."""

    def __init__(self, means: Sequence[float], deviations: Sequence[float], noise: float):
        """Begins from the judge's estimates.

        Args:
          means: m⁰.
          deviations: τ; a policy that nothing is known of has a large one.
          noise: σ, the deviation of one episode's return.
        """
        self._prior, self._precision = np.asarray(means, float), 1.0 / np.square(np.maximum(deviations, 1e-9))
        self._noise = 1.0 / max(noise, 1e-9) ** 2
        self._counts, self._sums = np.zeros(len(self._prior)), np.zeros(len(self._prior))

    @property
    def means(self) -> Float[np.ndarray, "P"]:
        """M."""
        return self._variance() * (self._prior * self._precision + self._sums * self._noise)

    def next(self) -> int:
        """The policy to try."""
        return int(np.argmax(self.means + WIDTH * np.sqrt(self._variance())))

    def best(self) -> int:
        """The policy that is thought to be worth most."""
        return int(np.argmax(self.means))

    def observe(self, policy: int, value: float) -> None:
        """Takes in the return of an episode."""
        self._counts[policy] += 1
        self._sums[policy] += value

    def _variance(self) -> Float[np.ndarray, "P"]:
        return 1.0 / (self._precision + self._counts * self._noise)


def spend(bandit: Bandit, trials: int, episode: Callable[[int, int], float]) -> list[Trial]:
    """Spends trials; `episode(policy, number)` runs one and returns its return."""
    spent = []
    for number in range(trials):
        policy = bandit.next()
        value = episode(policy, number)
        bandit.observe(policy, value)
        spent.append(Trial(number, policy, value, bandit.best(), float(bandit.means[bandit.best()])))
    return spent
