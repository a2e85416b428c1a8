"""What the settings of methods have in common."""

import dataclasses

from ploff.agents.actor_critic import Activation, Layers
from ploff.settings import choices, counts, positive, widths, within
from ploff.transitions import RewardScale


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Networks, learned from batches."""

    batch: int = 256  # B
    hidden: tuple[int, ...] = (256, 256)  # widths of the hidden layers
    activation: Activation = "relu"

    def __post_init__(self):
        counts(self, "batch")
        widths(self, "hidden")
        choices(self)

    @property
    def layers(self) -> Layers:
        """The hidden layers of every network that has no widths of its own."""
        return Layers(self.hidden, self.activation)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfflineConfig(NetworkConfig):
    """An actor and critics, learned side by side from a log."""

    discount: float = 0.99  # γ
    rewards: RewardScale = "own"  # that values are sums of: as most methods were published
    actor_rate: float = 3e-4  # learning rates of Adam
    critic_rate: float = 3e-4
    target_rate: float = 0.005  # of the moving averages

    def __post_init__(self):
        super().__post_init__()
        within(self, "[0, 1)", "discount")
        within(self, "(0, 1]", "target_rate")
        positive(self, "actor_rate", "critic_rate")
