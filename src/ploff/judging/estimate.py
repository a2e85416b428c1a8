"""An estimate of a mean return: its value, and an interval."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

CONFIDENCE = 0.9
CONFIDENCE_WIDTH = 3.29  # of a 90% interval, in standard deviations
REPLICATES = 1_000


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean return per episode, in the log's own reward, with the interval that holds it with 90% confidence."""

    value: float
    low: float
    high: float

    @classmethod
    def bootstrap(cls, returns: Float[np.ndarray, "E"], *, seed: int = 0, replicates: int = REPLICATES) -> "Estimate":
        """The mean of whole episodes' returns; episodes are drawn anew."""
        rng, returns = np.random.default_rng(seed), np.asarray(returns, np.float64)
        means = returns[rng.integers(0, len(returns), (replicates, len(returns)))].mean(axis=1)
        low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return cls(float(returns.mean()), float(low), float(high))

    @classmethod
    def of_replicates(cls, values: Float[np.ndarray, "B"], error: float = 0.0) -> "Estimate":
        """The mean of replicates (networks, draws), Student's interval of one more, widened by a further error.

        Args:
          values: what each replicate says.
          error: a standard deviation that replicates share and do not show.
        """
        values, count = np.asarray(values, np.float64), len(values)
        spread = float(np.var(values, ddof=1)) if count > 1 else 0.0
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, max(count - 1, 1)))
        half = quantile * float(np.sqrt(spread + error**2))
        return cls(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return f"{self.value:,.1f} [{self.low:,.1f}, {self.high:,.1f}]"
