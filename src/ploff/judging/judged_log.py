"""A log as judges read it: episodes, the ones that are judged on, and what the policy does in every state.

Shapes: N transitions, M states, K usable rows, E episodes, S first states that are judged on, A action.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ploff.judging.estimate import Estimate
from ploff.transitions import UNKNOWN, Transitions
from ploff.utils.errors import DataError, PloffError

BLOCK = 8_192  # states that a policy is asked about at a time
TOLERANCE = 1e-3  # of half an action's range, that rounding may put an action beyond its bounds
MIN_EPISODES = 2
PolicyFn = Callable[[np.ndarray], Any]  # observations in the log's units to actions as they are logged


@dataclasses.dataclass(frozen=True, eq=False)
class JudgedLog:
    """A log, with the episodes on which policies are judged."""

    data: Transitions  # as it was loaded
    episodes: Int[np.ndarray, "J"]  # those judged on: kept from training, or all
    kept: bool  # whether they were kept from training

    @classmethod
    def of(cls, data: Transitions, held_out: Sequence[int] | np.ndarray = ()) -> "JudgedLog":
        """A log; without `held_out` episodes it is judged on all of them.

        Args:
          data: as it was loaded.
          held_out: numbers of the episodes that the policy was not trained on.
        """
        if data.action_space.kind != "box":
            raise PloffError(
                f"{data.origin.name} has {data.action_space.n} discrete actions; only continuous ones are judged"
            )
        count = len(data.episode_ends()) if len(data) else 0
        if count < MIN_EPISODES:
            raise DataError(
                f"{data.origin.name} has {count} episode(s); judging needs at least {MIN_EPISODES}, better 20: "
                "log more, or mark where episodes end"
            )
        if not len(data.rows_with_target()):
            raise DataError(f"{data.origin.name} has no transition with a known successor or an end to judge by")
        chosen = np.asarray(held_out, np.int64)
        return cls(data.in_original_units(), chosen if len(chosen) else np.arange(count), bool(len(chosen)))

    @functools.cached_property
    def rows(self) -> Int[np.ndarray, "K"]:
        """The transitions that say what followed."""
        return self.data.rows_with_target()

    @functools.cached_property
    def owners(self) -> Int[np.ndarray, "N"]:
        """The episode of every transition."""
        lengths = self.data.episode_lengths()
        return np.repeat(np.arange(len(lengths)), lengths)

    @functools.cached_property
    def next_states(self) -> Int[np.ndarray, "N"]:
        """The row of the state that followed; the state itself where nothing did, or nobody knows."""
        successors = np.asarray(self.data.successors)
        return np.where(successors == UNKNOWN, np.arange(len(self.data)), successors).astype(np.int32)

    @property
    def starts(self) -> Int[np.ndarray, "S"]:
        """The rows of the first states of the episodes that are judged on."""
        return self.data.episode_starts()[self.episodes]

    @property
    def horizon(self) -> int:
        """Steps after which an episode is cut, as far as the log shows: the longest that it has."""
        return int(self.data.episode_lengths().max())

    @property
    def has_ends(self) -> bool:
        """Whether the process ever ends by itself."""
        return bool(np.any(self.data.terminals))

    @functools.cached_property
    def normalized(self) -> Transitions:
        """The log with observations in standard deviations."""
        return self.data.with_normalized_observations()

    def rows_of(self, episodes: np.ndarray) -> Int[np.ndarray, "R"]:
        """All transitions of these episodes."""
        return np.flatnonzero(np.isin(self.owners, episodes))

    def logged_return(self, seed: int = 0) -> Estimate:
        """The log's own mean return over all its episodes, with the bootstrap's interval."""
        return Estimate.bootstrap(self.data.episode_returns(), seed=seed)

    def actions_of(self, policy: PolicyFn, name: str = "the policy") -> Float[np.ndarray, "M A"]:
        """What a policy does in every state of the log; refuses one that does not fit it."""
        shape = getattr(policy, "observation_shape", self.data.observation_shape)
        space = getattr(policy, "action_space", self.data.action_space)
        if tuple(shape) != self.data.observation_shape or space.width != self.data.action_space.width:
            raise PloffError(
                f"{name} is for observations of shape {tuple(shape)} and {space.width} action(s), "
                f"{self.data.origin.name} has {self.data.observation_shape} and {self.data.action_space.width}; "
                "judge it on the log that it was made for"
            )
        states, found = np.asarray(self.data.observations), list[np.ndarray]()
        for start in range(0, len(states), BLOCK):
            block = states[start : start + BLOCK]
            padded = np.resize(block, (min(BLOCK, len(states)), *block.shape[1:]))  # one size, compiled once
            found.append(np.asarray(policy(padded), np.float32)[: len(block)])
        return self._checked(np.concatenate(found), name)

    def _checked(self, actions: np.ndarray, name: str) -> Float[np.ndarray, "M A"]:
        """Actions inside the bounds, rounding aside."""
        space = self.data.action_space
        if actions.shape != (self.data.num_states, space.width):
            raise PloffError(f"{name} gives actions of shape {actions.shape[1:]}, the log has {(space.width,)}")
        if not np.isfinite(actions).all():
            row = int(np.flatnonzero(~np.isfinite(actions).all(axis=1))[0])
            raise PloffError(f"{name} gives an action that is not finite in the state of row {row}")
        beyond = np.abs(actions - space.clip(actions)) / space.unit
        if np.max(beyond) > TOLERANCE:
            row, dimension = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
            low, high, found = space.low[dimension], space.high[dimension], actions[row, dimension]
            raise PloffError(
                f"{name} acts outside of the bounds: dimension {dimension} is {found:.4g} in the state of row {row}, "
                f"where {low:g} to {high:g} is allowed; clip its actions"
            )
        return space.clip(actions)

    def encoded(self, actions: np.ndarray) -> Any:
        """Actions as embeddings take them."""
        return self.data.action_space.encode(jnp.asarray(actions))


def held_out_episodes(data: Transitions, share: float, seed: int = 0) -> Int[np.ndarray, "H"]:
    """The episodes that are kept from training: a share of them, at least one, the same ones for the same log."""
    count = len(data.episode_ends())
    if share == 0:
        return np.zeros(0, np.int64)
    if count < MIN_EPISODES:
        raise DataError(f"{data.origin.name} has one episode: none of them can be kept from training")
    number = min(max(1, round(share * count)), count - 1)
    return np.sort(np.random.default_rng(seed).permutation(count)[:number])
