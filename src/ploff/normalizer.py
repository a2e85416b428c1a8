"""Changes of units that are recorded beside the data, and applied when a learner reads it."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from ploff.utils.errors import PloffError

AnyArray = np.ndarray | jax.Array


class Normalizer(eqx.Module):
    """A recorded change of units: normalized = (logged − shift) / scale, times a map where there is one."""

    shift: AnyArray
    scale: AnyArray
    map: AnyArray | None = None  # [D, k]: to other coordinates, fewer perhaps

    @classmethod
    def identity(cls) -> "Normalizer":
        """Leaves values as they are."""
        return cls(shift=np.zeros((), np.float32), scale=np.ones((), np.float32))

    def normalize(self, logged: Any) -> Any:
        """From the log's units to those that a learner sees."""
        standard = (logged - self.shift) / self.scale
        return standard if self.map is None else standard @ self.map

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what was of that shape, once it is normalized."""
        return shape if self.map is None else (self.map.shape[1],)

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        names = ("shift", "scale") if self.map is None else ("shift", "scale", "map")
        return {name: np.asarray(getattr(self, name)).tolist() for name in names}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Normalizer":
        """What `to_json` wrote."""
        return cls(**{name: np.asarray(values, np.float32) for name, values in content.items()})

    def denormalize(self, normalized: Any) -> Any:
        """From what a learner sees back to the log's units; what a map has left out is not to be had again."""
        if self.map is not None:
            raise PloffError("a map to other coordinates cannot be undone")
        return normalized * self.scale + self.shift
