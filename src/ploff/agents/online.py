r"""TD3 that learns in an environment and logs all that it sees: where medium, expert and replay data come from.

The update is that of `ploff.agents.td3`. Every `block` steps in the environment are followed by as many updates, in one
compiled scan, on rows drawn from all that was seen so far: a buffer on the device, one row per step, written in place.
Rewards and observations are the environment's own. A state of the simulator cannot be saved in general, so a run that
was cut off is not resumed: what it saw until then is logged, and its policies stay.

Shapes: C rows of the buffer, K of a block, S observation, A action.
"""

import dataclasses
import functools
import os
import pathlib
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from ploff import environments
from ploff.actions import ActionSpace
from ploff.agents import td3
from ploff.agents.policy import Policy, save_policy
from ploff.agents.td3 import TD3Config, TD3State
from ploff.environments.collection import origin_of
from ploff.environments.evaluation import evaluate
from ploff.training.loop import Row, not_finite, scan_updates, summarize
from ploff.transitions import Batch, Normalizer, Transitions
from ploff.utils import interrupts
from ploff.utils.config import check_counts, check_not_negative
from ploff.utils.errors import PloffError
from ploff.utils.files import write_csv
from ploff.utils.progress import track


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnlineTraining:
    """How long to learn, and how to explore."""

    steps: int = 1_000_000  # in the environment; as many updates, but for the first
    random_steps: int = 10_000  # at the beginning, actions are drawn uniformly and nothing is learned
    exploration_noise: float = 0.1  # on the policy's actions, in units of half an action's range
    block: int = 50  # steps in the environment between two calls of the learner
    snapshot_every: int = 10_000  # steps; the policy is kept, and tried
    episodes: int = 10  # per trial
    seed: int = 0  # seeds every random draw

    def __post_init__(self):
        check_counts(self, "steps", "block", "snapshot_every", "episodes")
        check_not_negative(self, "exploration_noise", "random_steps")
        for name in ("steps", "random_steps", "snapshot_every"):
            if getattr(self, name) % self.block:
                raise PloffError(f"{name} must be a multiple of {self.block}, got {getattr(self, name)}")
        if self.steps <= self.random_steps:
            raise PloffError(
                f"nothing is learned in the first {self.random_steps:,} steps, which are random: "
                f"{self.steps:,} are too few"
            )


class ReplayBuffer(eqx.Module):
    """Steps that were seen, on the device; `td3.update` samples from it as from a log."""

    seen: Batch  # [C, …] each
    size: Int[Array, ""]  # rows written

    @classmethod
    def empty(cls, rows: int, shape: tuple[int, ...], space: ActionSpace) -> "ReplayBuffer":
        """Room for so many rows."""
        states = jnp.zeros((rows, *shape))
        return cls(
            Batch(states, jnp.zeros((rows, space.width)), jnp.zeros(rows), states + 0, jnp.zeros(rows, bool)),
            jnp.zeros((), jnp.int32),
        )

    def sample(self, key: PRNGKeyArray, batch_size: int) -> tuple[Int[Array, "B"], Batch]:
        """Rows drawn with repetition among those that were written."""
        rows = jax.random.randint(key, (batch_size,), 0, self.size)
        return rows, Batch(*(values[rows] for values in self.seen))

    def next_states(self, rows: Int[Array, "B"]) -> Int[Array, "B"]:
        """Plain TD3 does not ask for them."""
        return rows


@functools.partial(jax.jit, donate_argnums=0)
def write(replay: ReplayBuffer, block: Batch) -> ReplayBuffer:
    """The buffer with a block behind what was there, in the same memory."""
    seen = (
        jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), replay.size, 0)
        for old, new in zip(replay.seen, block, strict=True)
    )
    return ReplayBuffer(Batch(*seen), replay.size + block.rewards.shape[0])


class LearnedOnline(NamedTuple):
    """What learning has left."""

    seen: Transitions  # every step, in order
    curve: list[Row]  # one row per trial
    state: TD3State
    interrupted: bool


def learn_online(
    environment: str,
    training: OnlineTraining,
    config: TD3Config | None = None,
    *,
    physics: environments.Physics = "d4rl",
    snapshots: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> LearnedOnline:
    """Trains TD3 in an environment.

    Args:
      environment: a name or a Gymnasium id that `ploff.environments.make` knows.
      training: how long, and how to explore.
      config: TD3's settings.
      physics: see `ploff.environments.make`.
      snapshots: a folder for the policies, step-10000.eqx and so on, and curve.csv with their returns.
      quiet: show no progress.
    """
    learner = _Learner(environment, training, config or TD3Config(), physics, snapshots)
    interrupted = False
    try:
        with track(f"td3 on {environment}", training.steps, quiet=quiet) as tracker:
            while learner.step < training.steps:
                learner.advance()
                if learner.step % training.snapshot_every == 0 or learner.step == training.steps:
                    learner.snapshot()
                tracker.update(learner.step, learner.shown())
    except KeyboardInterrupt:
        interrupted = True
        if not learner.step:
            raise
    finally:
        learner.actor.env.close()
    seen = learner.actor.log(learner.step, origin_of(environment, physics))
    return LearnedOnline(seen, learner.curve, learner.state, interrupted)


class _Learner:
    """The learner's state, its buffer, and who acts for it."""

    def __init__(self, name: str, training: OnlineTraining, config: TD3Config, physics: Any, folder: Any):
        self.name, self.physics, self.training, self.config = name, physics, training, config
        self.folder = None if folder is None else pathlib.Path(folder)
        self.actor = _Actor(environments.make(name, physics), training)
        shape, space = self.actor.shape, self.actor.space
        self.state = td3.init_for(jax.random.key(training.seed), shape, space, config)
        self.replay = ReplayBuffer.empty(training.steps, shape, space)
        self.update = functools.partial(_update_with, config)
        self.step, self.curve, self.last = 0, list[Row](), dict[str, float]()

    def advance(self) -> None:
        """A block of steps, and as many updates."""
        interrupts.check()
        random = self.step < self.training.random_steps
        block = self.actor.block(None if random else self.state.actor.params, self.step)
        self.replay = write(self.replay, block)
        if not random:
            key = jax.random.fold_in(jax.random.key(self.training.seed), 1)
            first, count = jnp.asarray(self.step), self.training.block
            self.state, infos = scan_updates(self.update, self.state, (self.replay,), key, first, count)
            self.last = summarize(infos)
            if problem := not_finite(self.last):
                raise PloffError(f"td3 on {self.name} diverged before step {self.step:,}: {problem}")
        self.step += self.training.block

    def snapshot(self) -> None:
        """Tries the policy, and keeps it."""
        actor = self.actor
        normalizer = jax.tree.map(jnp.asarray, Normalizer.identity())
        policy = Policy(td3.policy(self.state), normalizer, actor.space, actor.shape)
        outcome = evaluate(policy, self.name, episodes=self.training.episodes, seed=self.step, physics=self.physics)
        row = {"step": self.step, "mean_return": outcome.mean_return}
        self.curve.append(row if outcome.mean_score is None else {**row, "score": outcome.mean_score})
        if self.folder is not None:
            path = self.folder / f"step-{self.step}.eqx"
            save_policy(path, policy, "td3-off", self.config, **self.curve[-1])
            write_csv(self.folder / "curve.csv", self.curve)

    def shown(self) -> Row:
        """The numbers to watch."""
        last = {name: value for row in self.curve[-1:] for name, value in row.items() if name != "step"}
        return {name: self.last[name] for name in ("mean_q", "max_q") if name in self.last} | last


class _Actor:
    """One environment, who acts in it, and all that happened."""

    def __init__(self, env: gym.Env, training: OnlineTraining):
        self.env, self.training = env, training
        self.space = environments.action_space_of(env)
        if self.space.kind != "box" or not self.space.bounded:
            env.close()
            raise PloffError(f"TD3 needs actions in a bounded box; this environment has {env.action_space}")
        self.shape = tuple(env.observation_space.shape or ())
        if len(self.shape) > 1:
            env.close()
            raise PloffError(f"online, TD3 learns from vectors; this environment has {env.observation_space}")
        self.rng = np.random.default_rng([training.seed, 3])
        rows = training.steps
        self.states, self.following = (np.zeros((rows, *self.shape), np.float32) for _ in range(2))
        self.actions, self.rewards = (np.zeros((rows, self.space.width), np.float32), np.zeros(rows, np.float32))
        self.terminals, self.timeouts = np.zeros(rows, bool), np.zeros(rows, bool)
        self.observation, _ = env.reset(seed=training.seed)

    def block(self, actor: Any, start: int) -> Batch:
        """Acts for a block of steps, with noise; uniformly where there is no actor yet."""
        for row in range(start, start + self.training.block):
            self._step(row, self._action(actor))
        rows = slice(start, start + self.training.block)
        columns = (self.states, self.actions, self.rewards, self.following, self.terminals)
        return Batch(*(jnp.asarray(column[rows]) for column in columns))

    def _action(self, actor: Any) -> np.ndarray:
        if actor is None:
            return self.rng.uniform(np.asarray(self.space.low), np.asarray(self.space.high))
        chosen = np.asarray(_act(actor, np.asarray(self.observation, np.float32)[None]))[0]
        noise = self.training.exploration_noise * self.rng.standard_normal(self.space.width)
        return self.space.perturb(chosen, noise)

    def _step(self, row: int, action: np.ndarray) -> None:
        action = action.astype(np.float32)
        self.states[row], self.actions[row] = self.observation, action
        self.observation, reward, terminal, cut, _ = self.env.step(action)
        self.following[row], self.rewards[row] = self.observation, float(reward)
        self.terminals[row], self.timeouts[row] = terminal, cut and not terminal
        if terminal or cut:
            self.observation, _ = self.env.reset()

    def log(self, count: int, origin: Any) -> Transitions:
        """The first `count` steps as transitions."""
        timeouts = self.timeouts[:count].copy()
        timeouts[-1:] |= ~self.terminals[count - 1 : count]
        return Transitions.from_rows(
            observations=self.states[:count],
            actions=self.actions[:count],
            rewards=self.rewards[:count],
            terminals=self.terminals[:count],
            timeouts=timeouts,
            next_observations=self.following[:count],
            action_space=self.space,
            origin=origin,
        )


@eqx.filter_jit
def _act(actor: Any, observations: Any) -> Array:
    return actor(observations)


def _update_with(config: TD3Config, state: TD3State, replay: Any, key: PRNGKeyArray) -> Any:
    return td3.update(state, replay, key, config)
