"""Why an action is, or is not, close to the evidence: the logged transitions nearest to it, and how near that is.

A distance means little by itself, so it is held against the log's own: the distances of logged pairs to the nearest
other pair in their neighborhoods. Percentile 50 is as near as logged pairs usually are to each other; 100 is farther
than any of them.
"""

import csv
import dataclasses
import os
import pathlib
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ploff.neighbors import DataDistance, OnlineDataDistance, distances_to_others, median_nn_distance
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.errors import DataError, PloffError

Policy = Callable[[np.ndarray], np.ndarray]  # observations [B, ...] in the log's units → actions, as they are logged


Scores = Callable[[np.ndarray], tuple[Any, Any]]  # observations to scores and probabilities [B, n]


@dataclasses.dataclass(frozen=True)
class LoggedNeighbor:
    """A logged transition, and how far the action in question is from it."""

    row: int
    episode: int
    step: int
    action: np.ndarray  # as logged
    reward: float  # the environment's own
    distance: float


@dataclasses.dataclass(frozen=True)
class Alternative:
    """One of the discrete actions in the same state: how far it is from the data, and what the policy thinks of it."""

    action: int
    distance: float
    percentile: float
    score: float | None = None  # what the policy chooses by; −∞ where it would not
    probability: float | None = None


@dataclasses.dataclass(frozen=True)
class Explanation:
    """An action, its distance to the data, and the transitions that it is nearest to, nearest first."""

    observation: np.ndarray  # in the log's units
    action: np.ndarray
    origin: Literal["logged", "policy", "given"]
    distance: float
    percentile: float  # share of the log's own distances that are at most this one, in percent
    median_nn_distance: float  # the median of the log's own distances, copies left out
    sampled: int  # logged pairs that the percentile is over
    evidence: list[LoggedNeighbor]
    alternatives: list[Alternative] = dataclasses.field(default_factory=list)  # all actions, where they are discrete


class Explainer:
    """Answers for one log under one metric."""

    def __init__(
        self, data: Transitions, logged: DataDistance, policy: Policy | None = None, scores: Scores | None = None
    ):
        """Explains by a log and its distances.

        Args:
          data: the log on the host.
          logged: its distances.
          policy: chooses the actions, if there is one.
          scores: its scores and probabilities of discrete actions.
        """
        self.data, self.logged, self.policy, self.scores = data, logged, policy, scores
        self.usual = np.sort(distances_to_others(logged))
        self.median_nn_distance = median_nn_distance(logged, self.usual)

    def row(self, row: int, count: int = 10) -> Explanation:
        """The policy's action in a state of the log, or the logged one; that one's own row is then left out."""
        if not 0 <= row < len(self.data):
            raise PloffError(f"row {row} is not in the log: it has rows 0 to {len(self.data) - 1:,}")
        observation, near = np.asarray(self.data.observations[row]), np.asarray(self.logged.neighbors[row])
        if self.policy is not None:
            return self._explain(observation, self._chosen(observation), "policy", near, count)
        others = near[near != row]
        return self._explain(observation, np.asarray(self.data.actions[row]), "logged", others, count)

    def observation(self, observation: np.ndarray, action: np.ndarray | None = None, count: int = 10) -> Explanation:
        """The given action, or the policy's, in any state; both in the log's units."""
        if action is None and self.policy is None:
            raise PloffError("there is no policy yet to choose an action: give one behind the observation")
        near = OnlineDataDistance(self.logged).neighbors(self._seen(observation))[0]
        if action is None:
            return self._explain(observation, self._chosen(observation), "policy", near, count)
        return self._explain(observation, action, "given", near, count)

    def _chosen(self, observation: np.ndarray) -> np.ndarray:
        assert self.policy is not None
        return np.asarray(np.asarray(self.policy(np.asarray(observation)[None]))[0])

    def _seen(self, observation: np.ndarray) -> Any:
        return self.data.observation_normalizer.normalize(jnp.asarray(observation, jnp.float32)[None])

    def _explain(
        self,
        observation: np.ndarray,
        action: np.ndarray,
        origin: Literal["logged", "policy", "given"],
        near: np.ndarray,
        count: int,
    ) -> Explanation:
        encoded = self.data.action_space.encode(np.asarray(action)[None])
        distances = np.asarray(self.logged.distances_to(self._seen(observation), encoded, jnp.asarray(near)[None]))[0]
        nearest = np.argsort(distances, kind="stable")[:count]
        least = float(distances.min())
        return Explanation(
            observation=observation,
            action=np.asarray(action),
            origin=origin,
            distance=least,
            percentile=100.0 * np.searchsorted(self.usual, least, side="right") / len(self.usual),
            median_nn_distance=self.median_nn_distance,
            sampled=len(self.usual),
            evidence=[self._evidence(int(near[i]), float(distances[i])) for i in nearest],
            alternatives=self._alternatives(observation, near),
        )

    def _alternatives(self, observation: np.ndarray, near: np.ndarray) -> list[Alternative]:
        """Every discrete action in that state; none where actions are vectors."""
        space = self.data.action_space
        if space.kind != "discrete":
            return []
        states, rows = (jnp.repeat(jnp.asarray(one), space.n, axis=0) for one in (self._seen(observation), near[None]))
        distances = np.asarray(self.logged.distances_to(states, jnp.eye(space.n), rows)).min(axis=1)
        percentiles = 100.0 * np.searchsorted(self.usual, distances, side="right") / len(self.usual)
        found = [Alternative(i, float(distances[i]), float(percentiles[i])) for i in range(space.n)]
        if self.scores is None:
            return found
        scores, probabilities = (np.asarray(one)[0] for one in self.scores(np.asarray(observation)[None]))
        return [
            dataclasses.replace(one, score=float(scores[one.action]), probability=float(probabilities[one.action]))
            for one in found
        ]

    def _evidence(self, row: int, distance: float) -> LoggedNeighbor:
        episode, step = self.data.locate(row)
        reward = float(self.data.rewards[row])
        return LoggedNeighbor(row, episode, step, np.asarray(self.data.actions[row]), reward, distance)


def read_observation(
    path: str | os.PathLike[str], data: Transitions
) -> tuple[Float[np.ndarray, "*obs"], np.ndarray | None]:
    """An observation in the log's units from .npy, .json or .csv, and the action if one stands behind it.

    The file holds the numbers of one observation, or of one observation and one action. JSON may also be
    {"observation": […], "action": […]}.
    """
    values = _numbers(pathlib.Path(path))
    width = int(np.prod(data.observation_shape))
    discrete = data.action_space.kind == "discrete"
    action_width = 1 if discrete else data.action_space.width
    if len(values) not in (width, width + action_width):
        raise DataError(
            f"{path} holds {len(values)} numbers; an observation has {width}, with an action {width + action_width}"
        )
    if not np.isfinite(values).all():
        raise DataError(f"{path} holds NaN or infinity; every number must be finite")
    observation, action = values[:width].reshape(data.observation_shape), values[width:]
    if len(action) == 0:
        return observation, None
    return observation, np.asarray(action[0], np.int64) if discrete else action


def _numbers(path: pathlib.Path) -> Float[np.ndarray, "n"]:
    """All numbers of a file, in order."""
    try:
        if path.suffix == ".npy":
            return np.load(path).astype(np.float32).reshape(-1)
        if path.suffix == ".json":
            content = files.read_json(path)
            if isinstance(content, dict):
                content = [*np.ravel(content["observation"]).tolist(), *np.ravel(content.get("action", [])).tolist()]
            return np.asarray(content, np.float32).reshape(-1)
        if path.suffix == ".csv":
            with open(path, newline="") as file:
                return np.asarray([float(cell) for line in csv.reader(file) for cell in line], np.float32)
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} holds no observation that could be read: {error}") from None
    raise DataError(f"{path}: an observation is read from .npy, .json or .csv")
