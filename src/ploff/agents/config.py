"""Settings that methods have in common."""

import dataclasses

from ploff.agents.networks import HiddenLayers
from ploff.networks import Activation
from ploff.transitions import RewardScale
from ploff.utils.config import check_choices, check_counts, check_positive, check_sizes, check_within


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Networks, learned from batches."""

    batch_size: int = 256  # B
    hidden_sizes: tuple[int, ...] = (256, 256)
    activation: Activation = "relu"

    def __post_init__(self):
        check_counts(self, "batch_size")
        check_sizes(self, "hidden_sizes")
        check_choices(self)

    @property
    def hidden_layers(self) -> HiddenLayers:
        """The hidden layers of every network that has no sizes of its own."""
        return HiddenLayers(self.hidden_sizes, self.activation)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(NetworkConfig):
    """An actor and critics, learned side by side from a log."""

    discount: float = 0.99  # γ
    reward_scale: RewardScale = "none"  # of the rewards that values sum: most methods were published without one
    actor_lr: float = 3e-4  # learning rates of Adam
    critic_lr: float = 3e-4
    tau: float = 0.005  # rate of the target networks

    def __post_init__(self):
        super().__post_init__()
        check_within(self, "[0, 1)", "discount")
        check_within(self, "(0, 1]", "tau")
        check_positive(self, "actor_lr", "critic_lr")
