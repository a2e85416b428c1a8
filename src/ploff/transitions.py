"""Logged transitions: one immutable container, a JAX pytree.

Shapes: N transitions, M states, A action dimensions. Every state is stored once. Rows 0 … N−1 of
`observations` are the states in which the N actions were taken; the rows behind them are the states that no
action was taken in (an episode's last). `successors[i]` is the row of the state that followed transition i,
−1 where the log does not tell.

`terminals` marks that the process ended: nothing follows, no value is bootstrapped. `timeouts` marks that the
recording was cut: the process went on, and so does the bootstrap. They are never the same flag.

Arrays keep the values and types that were logged; `to_device` makes them float32 JAX arrays. A change of units (scaled
rewards, standardized observations) is recorded beside them and applied when a learner reads rows: nothing is copied,
and undoing it is exact.
"""

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ploff.actions import ActionSpace
from ploff.normalizer import AnyArray, Normalizer
from ploff.origin import Origin
from ploff.utils import files
from ploff.utils.arrays import aligned, blocks, non_consecutive_successors
from ploff.utils.errors import PloffWarning

RewardScale = Literal["unit", "none", "return_range"]  # see `Transitions.with_scaled_rewards`
RETURN_SPAN = 1000.0
UNKNOWN = -1  # successor of a transition whose next state was not logged


class Batch(NamedTuple):
    """Transitions as a learner sees them: encoded actions, successors beside states."""

    observations: Float[Array, "B *obs"]
    actions: Float[Array, "B A"]
    rewards: Float[Array, "B"]
    next_observations: Float[Array, "B *obs"]
    terminals: Bool[Array, "B"]


class Transitions(eqx.Module):
    """N logged transitions over M ≥ N states: an immutable JAX pytree; the module's text explains its arrays."""

    observations: AnyArray  # [M, ...]
    actions: AnyArray  # [N, A] in a box, [N] integers where discrete
    rewards: AnyArray  # [N]
    terminals: AnyArray  # [N] bool
    timeouts: AnyArray  # [N] bool
    successors: AnyArray  # [N] int32, rows of `observations`, or UNKNOWN
    action_space: ActionSpace = eqx.field(static=True)
    origin: Origin = eqx.field(static=True, default=Origin())
    reward_normalizer: Normalizer = eqx.field(default_factory=Normalizer.identity)
    observation_normalizer: Normalizer = eqx.field(default_factory=Normalizer.identity)
    infos: Mapping[str, AnyArray] = eqx.field(default_factory=dict)  # [N, ...] each; carried, never trained on

    @classmethod
    def from_rows(
        cls,
        *,
        observations: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        terminals: np.ndarray,
        timeouts: np.ndarray,
        next_observations: np.ndarray | Iterable[np.ndarray] | None = None,
        known: np.ndarray | None = None,
        action_space: ActionSpace,
        origin: Origin = Origin(),  # noqa: B008 - frozen
        infos: Mapping[str, np.ndarray] | None = None,
    ) -> "Transitions":
        """Builds the container from one row per transition, in the order they were logged.

        A next observation that is, bit for bit, the following row of the same episode is not stored again;
        any other is kept as a state of its own. Without `next_observations`, an episode's last successor is
        unknown.

        Args:
          observations, actions, rewards, terminals, timeouts: one row per transition; the flags are booleans.
          next_observations: the states that followed, or an iterable over consecutive blocks of these rows (a
            file's, that need not be in memory at once).
          known: False where a row of `next_observations` was not logged and holds a filling.
          action_space: what an action may be.
          origin: where the rows come from.
          infos: further arrays with a row per transition.
        """
        count = len(rewards)
        successors = np.arange(1, count + 1, dtype=np.int32)
        inside = ~(terminals | timeouts)
        inside[-1:] = False  # nothing follows the last row
        if next_observations is None:
            successors[~inside] = UNKNOWN
        else:
            wanted = np.ones(count, bool) if known is None else known
            rows, states = non_consecutive_successors(observations, inside, blocks(next_observations), wanted)
            successors[~inside] = UNKNOWN
            successors[rows] = count + np.arange(len(rows), dtype=np.int32)
            observations = aligned(observations, states)
        return cls(
            observations=aligned(observations),
            actions=aligned(actions),
            rewards=rewards,
            terminals=terminals,
            timeouts=timeouts,
            successors=successors,
            action_space=action_space,
            origin=origin,
            infos=dict(infos or {}),
        )

    def __len__(self) -> int:
        return self.rewards.shape[0]

    @property
    def num_states(self) -> int:
        """M: states in the log, each counted once, those without an action included."""
        return self.observations.shape[0]

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of one observation, as it was logged."""
        return tuple(self.observations.shape[1:])

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one observation, as learners see it."""
        return self.observation_normalizer.shape_of(self.observation_shape)

    # Episodes, derived from the flags.

    def episode_ends(self) -> Int[np.ndarray, "E"]:
        """The row of each episode's last transition. The log's last row ends an episode, flagged or not."""
        flagged = np.asarray(self.terminals) | np.asarray(self.timeouts)
        flagged[-1:] = True
        return np.flatnonzero(flagged)

    def episode_starts(self) -> Int[np.ndarray, "E"]:
        """The row of each episode's first transition."""
        return np.concatenate([[0], self.episode_ends()[:-1] + 1]) if len(self) else np.zeros(0, int)

    def episode_lengths(self) -> Int[np.ndarray, "E"]:
        """Transitions in each episode."""
        return self.episode_ends() - self.episode_starts() + 1

    def episode_returns(self) -> Float[np.ndarray, "E"]:
        """Undiscounted return of each episode, in the environment's own reward."""
        rewards = np.asarray(self.rewards, np.float64)
        return np.add.reduceat(rewards, self.episode_starts()) if len(self) else np.zeros(0)

    def locate(self, row: int) -> tuple[int, int]:
        """The episode that a transition is in, and its step there, both from 0."""
        ends = self.episode_ends()
        episode = int(np.searchsorted(ends, row))
        return episode, int(row - self.episode_starts()[episode])

    def select_episodes(self, episodes: Any) -> "Transitions":
        """The named episodes alone, in the order given: for splits that no episode straddles."""
        starts, ends = self.episode_starts(), self.episode_ends()
        chosen = np.arange(len(ends))[np.asarray(episodes) if np.size(episodes) else []].reshape(-1)
        rows = [np.arange(int(starts[e]), int(ends[e]) + 1) for e in chosen]
        selection = self._from_rows_of(np.concatenate([np.zeros(0, int), *rows]))
        if not len(selection):
            return selection
        # An episode that the log's end cut without a flag must not run into the one that is now behind it.
        inner_ends = np.cumsum([len(r) for r in rows])[:-1] - 1
        timeouts = np.array(selection.timeouts)
        timeouts[inner_ends] |= ~np.asarray(selection.terminals)[inner_ends]
        return dataclasses.replace(selection, timeouts=timeouts)

    def _from_rows_of(self, rows: np.ndarray) -> "Transitions":
        successors = np.asarray(self.successors)[rows]
        place = np.full(self.num_states, UNKNOWN, np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        renumbered = np.where(successors == UNKNOWN, UNKNOWN, place[successors])
        own = np.flatnonzero((renumbered == UNKNOWN) & (successors != UNKNOWN))
        renumbered[own] = len(rows) + np.arange(len(own), dtype=np.int32)
        states = np.concatenate([rows, successors[own]])
        return dataclasses.replace(
            self,
            observations=self.observations[states],
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            terminals=self.terminals[rows],
            timeouts=self.timeouts[rows],
            successors=renumbered,
            infos={key: value[rows] for key, value in self.infos.items()},
        )

    # Rows for learners.

    def next_observations(self, rows: Any = slice(None)) -> np.ndarray:
        """The states that followed, a copy; NaN (or, in integers, the state again) where not logged."""
        followed = np.asarray(self.successors)[rows]
        unknown = followed == UNKNOWN
        states = np.asarray(self.observations)
        following = states[np.where(unknown, np.arange(len(self))[rows], followed)]
        if np.issubdtype(following.dtype, np.floating):
            following[unknown] = np.nan
        return following

    def rows_with_successor(self) -> Int[np.ndarray, "K"]:
        """Transitions whose next state is known: the metric learns from these."""
        return np.flatnonzero(np.asarray(self.successors) != UNKNOWN)

    def rows_with_target(self) -> Int[np.ndarray, "K"]:
        """Transitions with a temporal-difference target: a known next state, or an end that needs none."""
        return np.flatnonzero((np.asarray(self.successors) != UNKNOWN) | np.asarray(self.terminals))

    def batch(self, rows: Int[Array, "B"] | Int[np.ndarray, "B"]) -> Batch:
        """Gathers transitions, inside or outside jit. An unknown successor reads as the state itself."""
        successors = jnp.asarray(self.successors)[rows]
        return Batch(
            observations=self.states(rows),
            actions=self.action_space.encode(jnp.asarray(self.actions)[rows]),
            rewards=self.reward_normalizer.normalize(jnp.asarray(self.rewards)[rows]),
            next_observations=self.states(jnp.where(successors == UNKNOWN, rows, successors)),
            terminals=jnp.asarray(self.terminals)[rows],
        )

    def states(self, rows: Any = slice(None)) -> Float[Array, "B *obs"]:
        """Observations by row of the M states, as learners see them: float32, in `observation_normalizer`."""
        return self.observation_normalizer.normalize(jnp.asarray(self.observations)[rows].astype(jnp.float32))

    def to_device(self) -> "Transitions":
        """The same transitions as JAX arrays: float32 (images stay uint8), without the infos."""
        states = self.observations
        if states.dtype.kind in "iu" and states.dtype.itemsize > 1:  # those of 64 bits would wrap around
            states = np.asarray(states, np.float32)
        return jax.tree.map(_for_device, dataclasses.replace(self, observations=states, infos={}))

    # Units: arrays stay as logged, `states` and `batch` apply them.

    def with_scaled_rewards(self, scale: RewardScale) -> "Transitions":
        """Rewards in [0, 1], as they were logged, or divided so that the episodes' returns span 1,000.

        Returns that are all equal leave the rewards as they were logged.
        """
        if scale == "unit":
            return self.with_unit_rewards()
        span = float(np.ptp(self.episode_returns())) if scale == "return_range" and len(self) else 0.0
        factor = np.asarray(span / RETURN_SPAN or 1.0, np.float32)
        return dataclasses.replace(self, reward_normalizer=Normalizer(shift=np.zeros_like(factor), scale=factor))

    def with_unit_rewards(self) -> "Transitions":
        """Rewards mapped to [0, 1] by the log's own extremes.

        Where episodes end by themselves, an end is worth 0. Rewards that are all equal say when to end, and costs that
        ending is good; moved into [0, 1] they would say the opposite. Both are only scaled, into [−1, 1].
        """
        rewards = np.asarray(self.rewards)
        low, high = (float(rewards.min()), float(rewards.max())) if len(rewards) else (0.0, 0.0)
        shift, scale = low, high - low
        if np.any(self.terminals) and (low == high != 0 or float(np.mean(rewards)) < 0):
            shift, scale = 0.0, max(abs(low), abs(high))
        elif low == high:
            warnings.warn(f"{self.origin.name}: all rewards are {low:g}; scaled, they are 0", PloffWarning, 2)
        units = Normalizer(shift=np.asarray(shift, np.float32), scale=np.asarray(scale or 1.0, np.float32))
        return dataclasses.replace(self, reward_normalizer=units)

    def with_normalized_observations(self, floor: float = 1e-3) -> "Transitions":
        """Observations with mean 0 and deviation 1 per dimension, over the N states that were acted in.

        Of images, all pixels have the same mean and deviation.

        Args:
          floor: the least deviation that is divided by; a dimension that hardly moves is not blown up.
        """
        states = np.asarray(self.observations)[: len(self)]
        if states.ndim > 2:
            states = states.reshape(-1, 1)  # one row per pixel
        total, squares = np.zeros(states.shape[1:]), np.zeros(states.shape[1:])
        reference = np.asarray(states[0], np.float64)  # near the data, so that squares stay exact
        for block in blocks(states):
            centered = block - reference
            total += centered.sum(axis=0)
            squares += np.square(centered).sum(axis=0)
        mean = total / len(states)
        deviation = np.sqrt(np.maximum(squares / len(states) - np.square(mean), 0.0))
        units = Normalizer(
            shift=np.asarray(reference + mean, np.float32), scale=np.asarray(np.maximum(deviation, floor), np.float32)
        )
        return dataclasses.replace(self, observation_normalizer=units)

    def in_original_units(self) -> "Transitions":
        """Undoes every change of units."""
        return dataclasses.replace(
            self, observation_normalizer=Normalizer.identity(), reward_normalizer=Normalizer.identity()
        )

    def fingerprint(self) -> str:
        """A digest of what was logged: the same for the same log, whatever its units and with or without infos.

        The bounds of the actions belong to it: they decide what a policy's outputs mean.
        """
        space = self.action_space
        bounds = (np.asarray(space.low), np.asarray(space.high), np.asarray(space.n))
        return files.fingerprint((dataclasses.replace(self.in_original_units(), infos={}), bounds))

    def nbytes(self) -> int:
        """Bytes that the container's arrays hold."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self) if hasattr(leaf, "nbytes"))


def _for_device(leaf: AnyArray) -> jax.Array:
    if np.issubdtype(np.asarray(leaf).dtype, np.floating):
        return jnp.asarray(leaf, jnp.float32)
    return jnp.asarray(leaf)
