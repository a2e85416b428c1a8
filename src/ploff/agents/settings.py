"""What the settings of actors and critics have in common."""

import dataclasses

from ploff.settings import counts, positive, widths, within


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfflineConfig:
    """An actor and critics, learned side by side from a log."""

    discount: float = 0.99  # γ
    batch: int = 256  # B
    hidden: tuple[int, ...] = (256, 256)  # widths of the hidden layers of actor and critics
    actor_rate: float = 3e-4  # learning rates of Adam
    critic_rate: float = 3e-4
    target_rate: float = 0.005  # of the moving averages

    def __post_init__(self):
        within(self, "[0, 1)", "discount")
        within(self, "(0, 1]", "target_rate")
        counts(self, "batch")
        widths(self, "hidden")
        positive(self, "actor_rate", "critic_rate")
