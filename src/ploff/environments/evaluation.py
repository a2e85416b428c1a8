"""Evaluation: episodes of a policy, their returns, and D4RL's normalized scores.

    evaluation = ploff.environments.evaluation.evaluate(policy, "hopper", episodes=10, seed=0)
    evaluation.returns, evaluation.lengths, evaluation.scores

Returns are sums of the environment's own reward, whatever scale a learner saw. The policy gets observations
in the environment's own units: one that was trained on others brings its change of units along.

The same seed gives the same returns, however many episodes run side by side. Different seeds share no
episode.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from rich.table import Table

from ploff import environments
from ploff.environments.env_cache import cached_envs
from ploff.environments.rollouts import ROWS, Policy, run_episodes
from ploff.utils.errors import PloffError
from ploff.utils.progress import track


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The outcome of E episodes."""

    environment: str
    physics: environments.Physics
    seed: int
    returns: np.ndarray  # [E], undiscounted
    lengths: np.ndarray  # [E], steps
    references: environments.References | None = None  # returns that score 0 and 100, where known

    @property
    def scores(self) -> np.ndarray | None:
        """Normalized scores [E]; None where the environment has no references."""
        if self.references is None:
            return None
        return environments.normalized_score(self.returns, self.references)

    @property
    def mean_return(self) -> float:
        """The episodes' mean return."""
        return float(self.returns.mean())

    @property
    def mean_score(self) -> float | None:
        """The episodes' mean normalized score."""
        return None if self.scores is None else float(self.scores.mean())

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON's own types; `ploff.utils.files.write_json` writes it."""
        return {
            "environment": self.environment,
            "physics": self.physics,
            "seed": self.seed,
            "returns": self.returns.tolist(),
            "lengths": self.lengths.tolist(),
            "references": None if self.references is None else list(self.references),
            "scores": None if self.scores is None else self.scores.tolist(),
            "mean_return": self.mean_return,
            "mean_score": self.mean_score,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Evaluation":
        """The inverse of `to_json`; what can be computed again is."""
        references = content["references"]
        return cls(
            environment=content["environment"],
            physics=content["physics"],
            seed=content["seed"],
            returns=np.asarray(content["returns"], np.float64),
            lengths=np.asarray(content["lengths"], np.int64),
            references=None if references is None else (references[0], references[1]),
        )

    def __rich__(self) -> Table:
        rows = {"return": self.returns, "length": self.lengths}
        if self.scores is not None:
            rows["normalized score"] = self.scores
        count, physics = len(self.returns), f"{self.physics} physics"
        table = Table(title=f"{self.environment} ({physics}), {count} episodes, seed {self.seed}")
        table.add_column("")
        for column in ("mean", "deviation", "lowest", "highest"):
            table.add_column(column, justify="right")
        for name, values in rows.items():
            numbers = (values.mean(), values.std(), values.min(), values.max())
            table.add_row(name, *(f"{number:,.1f}" for number in numbers))
        return table


def evaluate(
    policy: Policy,
    environment: str | Callable[[], gym.Env],
    *,
    episodes: int = 10,
    seed: int = 0,
    physics: environments.Physics = "d4rl",
    references: environments.References | None = None,
    parallel: int | None = None,
    options: dict[str, Any] | None = None,
    quiet: bool = True,
) -> Evaluation:
    """Runs whole episodes of a policy.

    Args:
      policy: any callable from observations [B, ...] to actions [B, A]: a NumPy function, a JAX function
        (compiled once, not once an evaluation), or a pytree such as an Equinox module (compiled once for
        all its parameters). Where actions are discrete it returns choices [B] or scores [B, n]. Actions are
        clipped to the environment's bounds.
      environment: a name or a Gymnasium id that `ploff.environments.make` knows, or a function that makes
        one.
      episodes: how many; each has its own seed.
      seed: decides the episodes' seeds.
      physics: see `ploff.environments.make`.
      references: returns that score 0 and 100; by default those registered for the environment.
      parallel: environments side by side; changes the speed alone.
      options: for `ploff.environments.make`.
      quiet: shows no progress.
    """
    if episodes < 1:
        raise PloffError(f"an evaluation needs at least one episode, got {episodes}")
    name = environment if isinstance(environment, str) else getattr(environment, "__name__", "environment")
    if references is None and environments.has_reference(name):
        references = environments.reference_scores(name)
    count = min(episodes, ROWS if parallel is None else parallel)
    returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
    with (
        cached_envs(count, environment, physics, options or {}) as envs,
        track(f"evaluating on {name}", episodes, quiet=quiet) as tracker,
    ):
        finished = run_episodes(policy, envs, episode_seeds(seed, episodes))
        for done, episode in enumerate(finished, start=1):
            returns[episode.number] = sum(episode.rewards)
            lengths[episode.number] = len(episode.rewards)
            tracker.update(done, {"return": returns[episode.number]})
    return Evaluation(
        environment=name, physics=physics, seed=seed, returns=returns, lengths=lengths, references=references
    )


def episode_seeds(seed: int, count: int) -> list[int]:
    """Seeds of the episodes that one seed stands for; a larger count begins with the same ones."""
    if seed < 0:
        raise PloffError(f"a seed is not negative, got {seed}")
    return [int(state) for state in np.random.SeedSequence(seed).generate_state(count)]
