"""What an agent learns from: a log on the device to sample from, and distances to its data."""

import dataclasses
import math
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float16, Int, PRNGKeyArray

from ploff import neighbors
from ploff.legal_actions import legal_mask
from ploff.neighbors import DataDistance
from ploff.transitions import UNKNOWN, Batch, Transitions
from ploff.utils.errors import PloffError


class DistanceStats(eqx.Module):
    """How far an action is from the data, and the log's own measures of far."""

    data_distance: DataDistance
    median_nn_distance: Float[Array, ""]  # of a logged pair to the nearest other
    neighborhood_radius: Float[Array, ""]  # the median distance of a logged pair to those logged nearby
    action_sensitivity: Float[Array, ""]  # how far a logged pair moves as its action moves by half a range
    action_spread: Float[Array, ""]  # how far actions logged nearby are from the own one along one direction
    state_distances_sq: Float16[Array, "M k"]  # of states to those nearby, in units of their median

    @classmethod
    def of(cls, data_distance: DataDistance) -> "DistanceStats":
        """Measures the log by itself."""
        squared = np.square(neighbors.state_distances(data_distance))
        usual = np.median(squared[: data_distance.pairs.shape[0], 1:])  # not of states behind an episode's end
        squared = np.minimum(squared / (usual if usual > 0 else 1.0), np.finfo(np.float16).max)
        return cls(
            data_distance,
            jnp.asarray(neighbors.median_nn_distance(data_distance), jnp.float32),
            jnp.asarray(neighbors.neighborhood_radius(data_distance), jnp.float32),
            jnp.asarray(neighbors.action_sensitivity(data_distance), jnp.float32),
            jnp.asarray(neighbors.action_spread(data_distance), jnp.float32),
            jnp.asarray(squared, jnp.float16),
        )

    @property
    def directional_std(self) -> Float[Array, ""]:
        """The radius along one direction: logged actions vary in all of theirs, and a policy moves in one."""
        return self.neighborhood_radius / math.sqrt(self.data_distance.data.action_space.width)

    def distance(self, rows: Int[Array, "B"], actions: Float[Array, "B A"]) -> Float[Array, "B"]:
        """d_D(s, a) in states of the log, by row; 1 is the median distance between neighbors in the log."""
        return self.data_distance.distance(rows, actions) / self.median_nn_distance


@runtime_checkable
class BatchSource(Protocol):
    """What temporal-difference updates sample from: a log, or a replay buffer."""

    def sample(self, key: PRNGKeyArray, batch_size: int) -> tuple[Int[Array, "B"], Batch]: ...  # noqa: D102
    def next_states(self, rows: Int[Array, "B"]) -> Int[Array, "B"]: ...  # noqa: D102


class OfflineDataset(eqx.Module):
    """Transitions to sample from, in training units, and distances to them where a method asks for these."""

    data: Transitions  # on the device
    rows: Int[Array, "K"]  # that have a temporal-difference target
    distances: DistanceStats | None = None
    legal: Bool[Array, "M n"] | None = None  # by state; None where every action is

    @classmethod
    def of(
        cls, data: Transitions, distances: DistanceStats | None = None, legal: np.ndarray | None = None
    ) -> "OfflineDataset":
        """A dataset over all rows with a target.

        Args:
          data: the log, in the units to be trained in.
          distances: for methods that ask for them.
          legal: which discrete actions are legal in each state; by default as the log's infos have it.
        """
        rows = data.rows_with_target()
        if not len(rows):
            raise PloffError(f"{data.origin.name} has no transition with a terminal or a known successor to learn from")
        mask = legal_mask(data) if legal is None else legal
        return cls(
            data.to_device(), jnp.asarray(rows, jnp.int32), distances, None if mask is None else jnp.asarray(mask)
        )

    def without_episodes(self, episodes: Int[np.ndarray, "H"]) -> "OfflineDataset":
        """The same dataset, whose rows of these episodes are never sampled."""
        if not len(episodes):
            return self
        lengths = self.data.episode_lengths()
        held = np.isin(np.repeat(np.arange(len(lengths)), lengths), episodes)
        rows = np.asarray(self.rows)
        return dataclasses.replace(self, rows=jnp.asarray(rows[~held[rows]], jnp.int32))

    def sample(self, key: PRNGKeyArray, batch_size: int) -> tuple[Int[Array, "B"], Batch]:
        """Rows drawn with repetition, and their transitions."""
        rows = self.rows[jax.random.randint(key, (batch_size,), 0, self.rows.shape[0])]
        return rows, self.data.batch(rows)

    def next_states(self, rows: Int[Array, "B"]) -> Int[Array, "B"]:
        """The rows of the states that followed; the state itself where none is known."""
        successors = jnp.asarray(self.data.successors)[rows]
        return jnp.where(successors == UNKNOWN, rows, successors)

    def legal_actions(self, rows: Int[Array, "B"]) -> Bool[Array, "B n"] | None:
        """Which actions are legal in states of the log, by row; None where all are."""
        return None if self.legal is None else self.legal[rows]

    def logged_actions(self, states: Int[Array, "B"]) -> tuple[Float[Array, "B A"], Bool[Array, "B"]]:
        """The actions that were taken in these states, and whether there are any: none after an episode's last."""
        acted = states < len(self.data)
        actions = jnp.asarray(self.data.actions)[jnp.where(acted, states, 0)]
        return self.data.action_space.encode(actions), acted

    @property
    def max_abs_reward(self) -> Float[Array, ""]:
        """The size of the largest reward, as it is learned from."""
        return jnp.max(jnp.abs(self.data.reward_normalizer.normalize(jnp.asarray(self.data.rewards))))
