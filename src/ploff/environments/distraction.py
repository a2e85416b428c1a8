r"""Distractions: what a log and its environment say beside what matters, added to both alike.

    x = [s; z]            z_t: columns that mean nothing, drawn beside the episode
    x → R (x − μ) / σ     with a rotation: no single column means anything any more
    a → clip(a + ε)       with noise on the executed action: the dynamics become stochastic

The noise columns are slow walks, z_t = ρ z_{t−1} + √(1 − ρ²) e_t, or the states of another log, which have dynamics of
their own. `distract` changes a log, `Distracted` its environment; the log's origin says how, so that policies are tried
where they were trained. The truth is known: the first columns are those that mean something.
"""

import dataclasses
import json
import math
from typing import Any

import gymnasium as gym
import numpy as np
from jaxtyping import Float

from ploff.transitions import UNKNOWN, Origin, Transitions
from ploff.utils.config import check_not_negative, structure, to_plain
from ploff.utils.errors import PloffError

PERSISTENCE = 0.95  # ρ of the slow walks: a time of twenty steps
OPTION = "distraction"  # the environment's keyword


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distraction:
    """What is added to the observations, and to the executed actions."""

    walks: int = 0  # noise columns that walk slowly
    noise_from: str | None = None  # a dataset whose states are noise columns
    rotate: bool = False  # mix all columns by a fixed rotation
    action_noise: float = 0.0  # deviation of the noise on executed actions, in units of half an action's range
    seed: int = 0  # decides the rotation, and the noise of a log
    shift: tuple[float, ...] = ()  # μ and σ of all columns, which the rotation is preceded by
    scale: tuple[float, ...] = ()

    def __post_init__(self):
        check_not_negative(self, "walks", "action_noise", "seed")

    def mix(self, columns: Float[np.ndarray, "*B X"]) -> Float[np.ndarray, "*B X"]:
        """All columns, rotated where the distraction says so."""
        if not self.rotate:
            return columns
        standardized = (columns - np.asarray(self.shift)) / np.asarray(self.scale)
        return standardized @ rotation(columns.shape[-1], self.seed).T

    def named(self) -> str:
        """As the end of a dataset's name."""
        noise = "" if self.noise_from is None else "-foreign"
        walks = f"-walks{self.walks}" if self.walks else ""
        return walks + noise + ("-rotated" if self.rotate else "")


def rotation(size: int, seed: int) -> Float[np.ndarray, "X X"]:
    """A rotation drawn uniformly, by its seed."""
    drawn, corner = np.linalg.qr(np.random.default_rng([seed, size]).normal(size=(size, size)))
    return drawn * np.sign(np.diagonal(corner))


class NoiseColumns:
    """Draws columns that mean nothing, one episode at a time."""

    def __init__(self, distraction: Distraction):
        self.walks = distraction.walks
        self.foreign = None if distraction.noise_from is None else _foreign_states(distraction.noise_from)
        self.width = self.walks + (0 if self.foreign is None else self.foreign.shape[1])

    def episode(self, rng: np.random.Generator, length: int) -> Float[np.ndarray, "L Z"]:
        """The columns of `length` consecutive states."""
        walk = rng.normal(size=(length, self.walks))
        for step in range(1, length):
            walk[step] = PERSISTENCE * walk[step - 1] + math.sqrt(1 - PERSISTENCE**2) * walk[step]
        if self.foreign is None:
            return walk
        rows = (rng.integers(len(self.foreign)) + np.arange(length)) % len(self.foreign)
        return np.concatenate([walk, self.foreign[rows]], axis=1)


class Distracted(gym.Wrapper):
    """An environment with noise columns beside its state, a rotation of both, and noise on executed actions."""

    def __init__(self, env: gym.Env, distraction: Distraction, horizon: int = 1000):
        super().__init__(env)
        self._distraction, self._columns = distraction, NoiseColumns(distraction)
        self._horizon = (env.spec.max_episode_steps if env.spec else None) or horizon
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise PloffError(f"distractions are for observations that are vectors; this environment has {space}")
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (space.shape[0] + self._columns.width,), np.float64)
        self._rng, self._noise, self._step = np.random.default_rng(), np.zeros((0, 0)), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode with noise of its own; both follow from the seed."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._rng = np.random.default_rng([seed, 1])
        self._noise, self._step = self._columns.episode(self._rng, self._horizon + 1), 0
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Executes the action with its noise."""
        space = self.env.action_space
        if self._distraction.action_noise and isinstance(space, gym.spaces.Box):
            half_range = 0.5 * (space.high - space.low)
            noise = self._distraction.action_noise * half_range * self._rng.normal(size=np.shape(action))
            action = np.clip(action + noise, space.low, space.high).astype(space.dtype)
        observation, reward, terminal, cut, info = self.env.step(action)
        self._step += 1
        return self._seen(observation), float(reward), terminal, cut, info

    def _seen(self, observation: Any) -> np.ndarray:
        noise = self._noise[self._step % len(self._noise)]
        return self._distraction.mix(np.concatenate([observation, noise]))


def distract(data: Transitions, distraction: Distraction) -> Transitions:
    """A log with distractions in its observations, whose origin makes the environment that has them, too."""
    if distraction.action_noise:
        raise PloffError("noise on executed actions cannot be added to a log; collect one with --action-noise")
    before = distraction_of(data.origin) or Distraction()
    if before.walks or before.noise_from or before.rotate:
        raise PloffError(f"{data.origin.name} is distracted already; begin with the log that it was made from")
    distraction = dataclasses.replace(distraction, action_noise=before.action_noise)  # it was collected with
    if len(data.observation_shape) != 1:
        raise PloffError(f"distractions are for vectors; observations have shape {data.observation_shape}")
    columns = np.concatenate([np.asarray(data.observations, np.float64), _noise_of(data, distraction)], axis=1)
    acted = columns[: len(data)]
    if distraction.rotate:
        shift, scale = acted.mean(axis=0), np.maximum(acted.std(axis=0), 1e-6)
        distraction = dataclasses.replace(distraction, shift=tuple(shift.tolist()), scale=tuple(scale.tolist()))
    origin = dataclasses.replace(
        data.origin,
        name=data.origin.name + distraction.named(),
        options=json.dumps({**json.loads(data.origin.options), OPTION: to_plain(distraction)}),
    )
    return dataclasses.replace(data, observations=distraction.mix(columns).astype(np.float32), origin=origin)


def distraction_of(origin: Origin) -> Distraction | None:
    """The distraction that a log was given; None where it has none."""
    options = json.loads(origin.options)
    return read_distraction(options[OPTION]) if OPTION in options else None


def read_distraction(content: dict[str, Any]) -> Distraction:
    """A distraction from what an origin's options hold."""
    return structure(Distraction, content, "distraction's")


def _noise_of(data: Transitions, distraction: Distraction) -> Float[np.ndarray, "M Z"]:
    """Noise columns of every state of a log: drawn once per episode, so that a successor continues its state's."""
    columns, rng = NoiseColumns(distraction), np.random.default_rng(distraction.seed)
    noise, successors = np.zeros((data.num_states, columns.width)), np.asarray(data.successors)
    for first, last in zip(data.episode_starts(), data.episode_ends(), strict=True):
        drawn = columns.episode(rng, int(last - first) + 2)
        rows = np.arange(first, last + 1)
        noise[rows] = drawn[:-1]
        known = successors[rows] != UNKNOWN
        noise[successors[rows[known]]] = drawn[1:][known]
    return noise


def _foreign_states(name: str) -> Float[np.ndarray, "N Z"]:
    """Another log's states in the order in which they were logged, standardized; those that never vary left out."""
    from ploff import datasets

    data = datasets.load(name)
    states = np.asarray(data.observations, np.float64)[: len(data)].reshape(len(data), -1)
    deviation = states.std(axis=0)
    return ((states - states.mean(axis=0)) / np.maximum(deviation, 1e-12))[:, deviation > 1e-6]
