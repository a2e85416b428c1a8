"""Action spaces: what an action may be, and how networks see it."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ploff.utils.errors import DataError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActionSpace:
    """What an action may be: a vector in a box, or one of n choices."""

    kind: Literal["box", "discrete"]
    low: tuple[float, ...] = ()  # one bound per dimension, for a box
    high: tuple[float, ...] = ()
    n: int = 0  # number of choices, for a discrete space

    def __post_init__(self):
        if self.kind == "discrete" and self.n < 1:
            raise DataError(f"a discrete action space needs n >= 1, got {self.n}")
        if self.kind == "box" and (not self.low or len(self.low) != len(self.high)):
            raise DataError(f"a box needs as many lower as upper bounds, got {len(self.low)} and {len(self.high)}")

    @classmethod
    def box(cls, low: Any, high: Any) -> "ActionSpace":
        """A box with the given bounds, one per dimension."""
        return cls(
            kind="box",
            low=tuple(float(x) for x in np.atleast_1d(low)),
            high=tuple(float(x) for x in np.atleast_1d(high)),
        )

    @classmethod
    def discrete(cls, n: int) -> "ActionSpace":
        """N choices, numbered from 0."""
        return cls(kind="discrete", n=int(n))

    @property
    def width(self) -> int:
        """The length of an encoded action."""
        return self.n if self.kind == "discrete" else len(self.low)

    def encode(self, actions: np.ndarray | jax.Array) -> Float[Array, "*B width"]:
        """Actions as the networks see them: one-hot where they are choices, as they are in a box."""
        if self.kind == "discrete":
            return jax.nn.one_hot(actions, self.n)
        return jnp.asarray(actions, jnp.float32)

    def sample(self, key: jax.Array, count: int) -> Float[Array, "count width"]:
        """Encoded actions drawn uniformly: U(A)."""
        if self.kind == "discrete":
            return jax.nn.one_hot(jax.random.randint(key, (count,), 0, self.n), self.n)
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        return jax.random.uniform(key, (count, self.width), minval=low, maxval=high)

    @property
    def half_range(self) -> Float[np.ndarray, "width"]:
        """Half the range of each dimension of an encoded action."""
        if self.kind == "discrete":
            return np.full(self.n, 0.5)
        return 0.5 * (np.asarray(self.high) - np.asarray(self.low))

    @property
    def bounded(self) -> bool:
        """Whether there is an end to it: an environment's box need not have one, a policy's must."""
        return bool(np.isfinite([self.low, self.high]).all())

    @property
    def unit(self) -> Float[np.ndarray, "width"]:
        """What differences of actions are divided by: half the range, 1 where there is only one value."""
        return np.where(self.half_range > 0, self.half_range, 1.0)

    def clip(self, actions: Any) -> Any:
        """Actions of a box inside its bounds, of NumPy or JAX."""
        return actions.clip(np.asarray(self.low, actions.dtype), np.asarray(self.high, actions.dtype))

    def perturb(self, actions: Any, noise: Any) -> Any:
        """Actions of a box with noise on them, in units of half an action's range, inside the bounds."""
        return self.clip(actions + noise * self.half_range)

    def to_unit(self, actions: Float[Array, "*B width"]) -> Float[Array, "*B width"]:
        """Actions of a box with that box mapped to [−1, 1]; to 0 where there is only one value."""
        return (actions - self._middle()) / jnp.asarray(self.unit, jnp.float32)

    def from_unit(self, unit: Float[Array, "*B width"]) -> Float[Array, "*B width"]:
        """The inverse of `to_unit`."""
        return self._middle() + unit * jnp.asarray(self.half_range, jnp.float32)

    def _middle(self) -> Float[Array, "width"]:
        return 0.5 * (jnp.asarray(self.low) + jnp.asarray(self.high))
