"""Finite MDPs as arrays.

Shapes: S states, A actions. `rewards[s, a]` is r(s,a); `probabilities[s, a, s′]` is P(s′ | s,a). A
deterministic MDP also has `successors[s, a]`, the one state that follows.

The end of an episode is a state of its own, absorbing, without reward: once there, nothing more is paid.
`deterministic` adds it where transitions end. A time limit is no end of the process, so it leaves no trace
here.
"""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from ploff.utils.errors import DataError


class FiniteMDP(eqx.Module):
    """Rewards and transition probabilities of S states and A actions; see the module's text."""

    rewards: Float[np.ndarray, "S A"]
    probabilities: Float[np.ndarray, "S A S"]
    successors: Int[np.ndarray, "S A"] | None  # None where the MDP is stochastic

    def __init__(self, rewards: Any, probabilities: Any):
        """An MDP from r(s,a), shape [S, A], and P(s′ | s,a), shape [S, A, S].

        Raises:
          DataError: shapes that do not fit, a reward that is not finite, or probabilities that are none.
        """
        self.rewards = np.asarray(rewards, np.float64)
        self.probabilities = np.asarray(probabilities, np.float64)
        _check(self.rewards, self.probabilities)
        certain = np.all((self.probabilities == 0) | (self.probabilities == 1))
        self.successors = np.argmax(self.probabilities, axis=-1) if certain else None

    @classmethod
    def deterministic(cls, successors: Any, rewards: Any, terminals: Any = None) -> "FiniteMDP":
        """An MDP in which (s,a) is followed by `successors[s, a]`.

        Args:
          successors: the state that follows, shape [S, A].
          rewards: r(s,a), shape [S, A].
          terminals: where the process ends, shape [S, A]. If it ever does, state S is added: there every
            action pays 0 and stays. `successors` is not read where it ends.
        """
        successors, rewards = np.array(successors), np.asarray(rewards, np.float64)
        ends = np.zeros(successors.shape, bool) if terminals is None else np.asarray(terminals, bool)
        if not successors.shape == rewards.shape == ends.shape or successors.ndim != 2:
            raise DataError(
                f"successors {successors.shape}, rewards {rewards.shape} and terminals {ends.shape} "
                "must all have the shape [states, actions]"
            )
        if ends.any():
            successors, rewards = _with_end(successors, rewards, ends)
        count = len(successors)
        if successors.size and not (successors.min() >= 0 and successors.max() < count):
            raise DataError(f"successors must be states 0 … {count - 1}, got {successors.min()} … {successors.max()}")
        return cls(rewards, np.eye(count)[successors])

    @property
    def num_states(self) -> int:
        """S."""
        return self.rewards.shape[0]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.rewards.shape[1]

    @property
    def reward_range(self) -> float:
        """The highest reward less the lowest: no two rewards differ by more."""
        return float(np.ptp(self.rewards))


def _with_end(
    successors: Int[np.ndarray, "S A"], rewards: Float[np.ndarray, "S A"], ends: Bool[np.ndarray, "S A"]
) -> tuple[np.ndarray, np.ndarray]:
    end = len(successors)
    return (
        np.concatenate([np.where(ends, end, successors), np.full((1, successors.shape[1]), end)]),
        np.concatenate([rewards, np.zeros((1, rewards.shape[1]))]),
    )


def _check(rewards: np.ndarray, probabilities: np.ndarray) -> None:
    if rewards.ndim != 2 or rewards.size == 0 or probabilities.shape != (*rewards.shape, rewards.shape[0]):
        raise DataError(
            "an MDP needs rewards [S, A] and probabilities [S, A, S] with S, A >= 1, "
            f"got {rewards.shape} and {probabilities.shape}"
        )
    if not np.isfinite(rewards).all():
        state, action = np.argwhere(~np.isfinite(rewards))[0]
        raise DataError(f"the reward of state {state}, action {action} is {rewards[state, action]}: it must be finite")
    wrong = (probabilities < 0).any(axis=-1) | ~np.isclose(probabilities.sum(axis=-1), 1.0, rtol=0, atol=1e-9)
    if wrong.any():
        state, action = np.argwhere(wrong)[0]
        raise DataError(
            f"the probabilities after state {state}, action {action} must be non-negative and sum to 1, "
            f"they sum to {probabilities[state, action].sum():.6g}"
        )
