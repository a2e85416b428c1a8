"""The scores of the paper's Table 1 (Dadashi et al., 2021), by dataset and method.

The deviations are over its 10 seeds. Those of the baselines it took from D4RL's own report (Fu et al., 2020), which
gives no deviations.
"""

import csv
import dataclasses
import functools
import importlib.resources


@dataclasses.dataclass(frozen=True)
class PaperScore:
    """A cell of Table 1."""

    mean: float
    deviation: float | None  # None for the baselines

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.deviation is None else f"{self.mean:.1f} ± {self.deviation:.1f}"


@functools.cache
def paper_scores() -> dict[tuple[str, str], PaperScore]:
    """Every cell by (dataset, method)."""
    text = (importlib.resources.files("ploff.experiments") / "paper_scores.csv").read_text()
    return {
        (row["dataset"], row["method"]): PaperScore(
            float(row["mean"]), float(row["deviation"]) if row["deviation"] else None
        )
        for row in csv.DictReader(text.splitlines())
    }
