"""Whole episodes, many side by side: one policy call for all of them, environments stepped on every core.

What an episode does depends on its number and seed alone, not on how many run beside it:

- every call of the policy has ROWS rows, and an episode's row is its number modulo ROWS. A matrix product
  may round differently in another row or for another number of rows, and one such bit changes a MuJoCo
  episode. A constant shape also means that a jitted policy is compiled once;
- an environment that is done is reset with the next episode's own seed. Nothing is left half run, so that
  short episodes are not counted more often than long ones.

Shapes: B = ROWS rows, L steps of an episode.
"""

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np

from ploff.environments.stepper import ThreadedStepper
from ploff.legal_actions import MASK
from ploff.utils import interrupts
from ploff.utils.cores import available_cores
from ploff.utils.errors import PloffError

ROWS = 16
Policy = Callable[..., Any]


@dataclasses.dataclass(eq=False)
class Episode:
    """What happened from a reset to an end."""

    number: int
    seed: int
    rewards: list[float] = dataclasses.field(default_factory=list)  # [L]
    observations: list[Any] = dataclasses.field(default_factory=list)  # [L + 1], if they were kept
    actions: list[Any] = dataclasses.field(default_factory=list)  # [L], if they were kept
    terminal: bool = False  # the process ended; otherwise the episode was cut


def run_episodes(
    policy: Policy, envs: Sequence[gym.Env], seeds: Sequence[int], *, keep: bool = False
) -> Generator[Episode, None, None]:
    """Runs one episode a seed and yields each as it ends.

    Args:
      policy: from observations [B, ...] to actions [B, A], or to choices [B] or scores [B, n] of discrete
        actions.
      envs: environments of one kind, at most ROWS. Their number changes the speed, not the episodes.
      seeds: of the episodes, in their order.
      keep: whether episodes hold their observations and actions.
    """
    if not 1 <= len(envs) <= ROWS:
        raise PloffError(f"episodes run 1 to {ROWS} side by side, got {len(envs)} environments")
    lanes = [_EnvSlot(env, keep) for env in envs]
    act = _batched(policy, envs[0])
    observations = np.zeros((ROWS, *lanes[0].shape), lanes[0].dtype)
    pending, running = deque(range(len(seeds))), list[_EnvSlot]()
    idle = list(reversed(lanes))
    with ThreadedStepper(_extra_threads(lanes)) as stepper:
        while running or pending:
            while idle and (number := _next_with_free_row(pending, running)) is not None:
                running.append(idle.pop())
                running[-1].begin(number, seeds[number])
            for lane in running:
                observations[lane.row] = lane.observation
            interrupts.check()
            actions = act(observations, _legal_actions(running, envs[0]))
            for lane in running:
                lane.action = actions[lane.row]
            stepper.step_all(running)
            for lane in [lane for lane in running if lane.finished()]:
                running.remove(lane)
                idle.append(lane)
                yield lane.episode


def _legal_actions(running: "list[_EnvSlot]", env: gym.Env) -> np.ndarray | None:
    """Which actions are legal in each row, where the environment says so in its info; None where it does not."""
    if not isinstance(env.action_space, gym.spaces.Discrete) or not any(lane.legal is not None for lane in running):
        return None
    legal = np.ones((ROWS, int(env.action_space.n)), bool)
    for lane in running:
        if lane.legal is not None:
            legal[lane.row] = lane.legal
    return legal


def _next_with_free_row(pending: deque[int], running: "list[_EnvSlot]") -> int | None:
    busy = {lane.row for lane in running}
    number = next((number for number in pending if number % ROWS not in busy), None)
    if number is not None:
        pending.remove(number)
    return number


class _EnvSlot:
    """One environment and the episode in it."""

    def __init__(self, env: gym.Env, keep: bool):
        space = env.observation_space
        if space.shape is None or space.dtype is None:
            raise PloffError(f"observations must be arrays, got {space}; wrap the environment to flatten them")
        self.env, self.shape, self._keep = env, space.shape, keep
        self.dtype = np.dtype(np.float32) if np.issubdtype(space.dtype, np.floating) else space.dtype
        self.observation: Any = None
        self.action: Any = None
        self.legal: Any = None  # a mask over discrete actions
        self.episode: Episode
        self._over = False
        self._failure: Exception | None = None

    @property
    def row(self) -> int:
        return self.episode.number % ROWS

    def begin(self, number: int, seed: int) -> None:
        self.episode, self._over = Episode(number, int(seed)), False
        try:
            self.observation, info = self.env.reset(seed=int(seed))
            self.legal = info.get(MASK)
        except Exception as error:
            raise self._explained("reset", error) from error
        if self._keep:
            self.episode.observations.append(np.array(self.observation, self.dtype))

    def step(self) -> None:
        """One step, on whichever thread; a failure is kept for `finished` to raise."""
        try:
            self.observation, reward, terminal, cut, info = self.env.step(self.action)
            self.legal = info.get(MASK)
            self.episode.rewards.append(float(reward))
            self.episode.terminal, self._over = bool(terminal), bool(terminal or cut)
            if self._keep:
                self.episode.actions.append(np.array(self.action))  # not a view that keeps all rows alive
                self.episode.observations.append(np.array(self.observation, self.dtype))
        except Exception as error:
            self._failure = error

    def finished(self) -> bool:
        if self._failure is not None:
            raise self._explained(f"step {len(self.episode.rewards)}", self._failure) from self._failure
        return self._over

    def _explained(self, when: str, error: Exception) -> PloffError:
        kind, seed = type(error).__name__, self.episode.seed
        return PloffError(f"the environment failed at {when} of the episode with seed {seed}: {kind}: {error}")


def _extra_threads(lanes: "list[_EnvSlot]") -> int:
    """Threads beside the caller's: only MuJoCo lets go of Python's lock, and pictures stay on one thread."""
    base: Any = lanes[0].env.unwrapped
    simulates = hasattr(base, "model") and hasattr(base, "data") and base.render_mode is None
    return min(len(lanes), len(available_cores())) - 1 if simulates else 0


def _batched(policy: Policy, env: gym.Env) -> Callable[[np.ndarray, np.ndarray | None], np.ndarray]:
    """The policy as a function from observations, and a mask if there is one, to valid actions of ROWS rows."""
    space, call = env.action_space, compiled(policy)
    if isinstance(space, gym.spaces.Discrete):
        return lambda observations, legal: _choices(call(*_arguments(observations, legal)), space, legal)
    if isinstance(space, gym.spaces.Box):
        return lambda observations, _: _in_box(call(observations), space)
    raise PloffError(f"actions must lie in a box or be one of n choices; this environment has {space}")


def _in_box(actions: Any, space: gym.spaces.Box) -> np.ndarray:
    actions = np.asarray(actions)
    if actions.shape != (ROWS, *space.shape):
        wanted = (ROWS, *space.shape)
        raise PloffError(f"the policy must return actions of shape {wanted}, got {actions.shape}")
    if np.isnan(actions).any():
        raise PloffError("the policy returned NaN; were its inputs in the units that it was trained in?")
    return actions.astype(space.dtype or np.float32).clip(space.low, space.high)


def _arguments(observations: np.ndarray, legal: np.ndarray | None) -> tuple[np.ndarray, ...]:
    return (observations,) if legal is None else (observations, legal)


def _choices(actions: Any, space: gym.spaces.Discrete, legal: np.ndarray | None = None) -> np.ndarray:
    actions = np.asarray(actions)
    if actions.shape == (ROWS, int(space.n)):
        actions = (actions if legal is None else np.where(legal, actions, -np.inf)).argmax(axis=1)
    if actions.shape != (ROWS,):
        raise PloffError(f"the policy must return {ROWS} choices or {ROWS} x {space.n} scores, got {actions.shape}")
    return actions.astype(space.dtype or np.int64) + space.start


def compiled(policy: Policy) -> Policy:
    """The policy, jitted where it is JAX: compiled once for a function, or for all modules of one structure.

    A pytree such as an Equinox module is called through one jitted function, its arrays being arguments, so
    that new parameters compile nothing. A function that returns JAX arrays is taken to be pure and jitted;
    `jax.jit` itself remembers a function that it has seen. Anything else is called as it is.
    """
    if not jax.tree_util.all_leaves([policy]):
        return functools.partial(_call, policy)
    return policy if hasattr(policy, "lower") else _JitIfJax(policy)


@eqx.filter_jit
def _call(policy: Policy, *arguments: Any) -> Any:
    return policy(*arguments)


class _JitIfJax:
    """Calls a function as it is; once that has given JAX arrays, jitted, where it can be."""

    def __init__(self, policy: Policy):
        self._policy, self._call, self._known = policy, policy, False

    def __call__(self, *arguments: np.ndarray) -> Any:
        if self._known:
            return self._call(*arguments)
        self._known, actions = True, self._policy(*arguments)
        if not isinstance(actions, jax.Array):
            return actions
        self._call = jax.jit(self._policy)
        try:
            return self._call(*arguments)
        except jax.errors.JAXTypeError:  # Python's own control flow on JAX's values
            self._call = self._policy
            return actions
