"""What the settings of the baselines have in common, and how they are checked."""

import dataclasses
from typing import Any

from ploff.errors import PloffError


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfflineConfig:
    """An actor and critics, learned side by side from a log."""

    discount: float = 0.99  # γ
    batch: int = 256  # B
    hidden: tuple[int, ...] = (256, 256)  # widths of the hidden layers of actor and critics
    actor_rate: float = 3e-4  # learning rates
    critic_rate: float = 3e-4
    target_rate: float = 0.005  # of the moving averages

    def __post_init__(self):
        within(self, 0, 1, "discount", "target_rate")
        if self.discount == 1 or self.target_rate == 0:
            raise PloffError("discount must lie in [0, 1) and target_rate in (0, 1]")
        counts(self, "batch")
        widths(self, "hidden")
        positive(self, "actor_rate", "critic_rate")


def positive(config: Any, *names: str) -> None:
    """Refuses settings that are not above 0."""
    _refuse(config, names, lambda value: value > 0, "must be positive")


def not_negative(config: Any, *names: str) -> None:
    """Refuses settings below 0."""
    _refuse(config, names, lambda value: value >= 0, "must not be negative")


def counts(config: Any, *names: str) -> None:
    """Refuses settings that are not whole numbers from 1 on."""
    _refuse(config, names, lambda value: value == int(value) >= 1, "must be a whole number, at least 1")


def within(config: Any, low: float, high: float, *names: str) -> None:
    """Refuses settings outside [low, high]."""
    _refuse(config, names, lambda value: low <= value <= high, f"must lie in [{low:g}, {high:g}]")


def widths(config: Any, *names: str) -> None:
    """Refuses hidden layers without units, and networks without hidden layers."""
    _refuse(config, names, lambda value: bool(value) and min(value) >= 1, "needs widths of at least 1")


def _refuse(config: Any, names: tuple[str, ...], holds: Any, rule: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not holds(value):
            raise PloffError(f"{name} {rule}, got {value}")
