"""What an agent learns from: rows of a log on the device, and how far an action is from them."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float16, Int, PRNGKeyArray

from ploff import neighbors
from ploff.errors import PloffError
from ploff.neighbors import DataDistance
from ploff.transitions import UNKNOWN, Batch, Transitions


class Evidence(eqx.Module):
    """How far an action is from the data, and the log's own measures of far."""

    logged: DataDistance
    spacing: Float[Array, ""]  # the median distance of a logged pair to the nearest other
    spread: Float[Array, ""]  # the median distance of a logged pair to those logged nearby
    slope: Float[Array, ""]  # how far a logged pair moves as its action moves by half a range
    apart: Float16[Array, "M k"]  # squared distances of states to those nearby, in units of their median

    @classmethod
    def of(cls, logged: DataDistance) -> "Evidence":
        """Measures the log by itself."""
        spacing = jnp.asarray(neighbors.spacing(logged), jnp.float32)
        spread = jnp.asarray(neighbors.spread(logged), jnp.float32)
        slope = jnp.asarray(neighbors.slope(logged), jnp.float32)
        apart = np.square(neighbors.state_distances(logged))
        usual = np.median(apart[: logged.pairs.shape[0], 1:])  # not of states behind an episode's end
        apart = np.minimum(apart / (usual if usual > 0 else 1.0), np.finfo(np.float16).max)
        return cls(logged, spacing, spread, slope, jnp.asarray(apart, jnp.float16))

    @property
    def deviation(self) -> Float[Array, ""]:
        """The spread along one direction: logged actions vary in all of theirs, and a policy moves in one."""
        return self.spread / math.sqrt(self.logged.data.action_space.width)

    def distance(self, rows: Int[Array, "B"], actions: Float[Array, "B A"]) -> Float[Array, "B"]:
        """d_D(s, a) in states of the log, by row, in spacings: 1 is what lies between neighbours in the log."""
        return self.logged.distance(rows, actions) / self.spacing


class Log(eqx.Module):
    """Transitions to draw from, in training units, and the evidence where a method asks for it."""

    data: Transitions  # on the device
    rows: Int[Array, "K"]  # that have a temporal-difference target
    evidence: Evidence | None = None

    @classmethod
    def of(cls, data: Transitions, evidence: Evidence | None = None) -> "Log":
        """A log over all rows with a target; `data` is in the units to be trained in."""
        if data.action_space.kind != "box":
            raise PloffError(
                f"{data.origin.name} has {data.action_space.n} discrete actions; policies are learned for boxes"
            )
        rows = data.rows_with_target()
        if not len(rows):
            raise PloffError(
                f"{data.origin.name} has no transition with a terminal or a known successor to learn from"
            )
        return cls(data.to_device(), jnp.asarray(rows, jnp.int32), evidence)

    def draw(self, key: PRNGKeyArray, count: int) -> tuple[Int[Array, "B"], Batch]:
        """Rows drawn with repetition, and their transitions."""
        rows = self.rows[jax.random.randint(key, (count,), 0, self.rows.shape[0])]
        return rows, self.data.batch(rows)

    def successors(self, rows: Int[Array, "B"]) -> Int[Array, "B"]:
        """The rows of the states that followed; the state itself where none is known."""
        followed = jnp.asarray(self.data.successors)[rows]
        return jnp.where(followed == UNKNOWN, rows, followed)

    def logged_actions(self, states: Int[Array, "B"]) -> tuple[Float[Array, "B A"], Bool[Array, "B"]]:
        """The actions that were taken in these states, and whether there are any: none after an episode's last."""
        acted = states < len(self.data)
        actions = jnp.asarray(self.data.actions)[jnp.where(acted, states, 0)]
        return self.data.action_space.encode(actions), acted

    @property
    def largest_reward(self) -> Float[Array, ""]:
        """The size of the largest reward, as it is learned from."""
        return jnp.max(jnp.abs(self.data.reward_units.apply(jnp.asarray(self.data.rewards))))
