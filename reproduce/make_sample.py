"""Makes the sample that ploff brings along: hopper, by policies of growing skill, with noise on their actions.

    python reproduce/make_sample.py [--turns 140] [--out src/ploff/datasets/sample.npz]

Augmented random search (Mania et al., 2018) finds a linear policy on standardised observations. Snapshots on its
way, from one that soon falls to one that runs to the end, each log as many transitions as any other. The search
does not count the bonus for standing, so that it looks for speed; scores are of the task's own reward. It takes
one core some four minutes.

Shapes: A actions, O observations, D directions.
"""

import argparse
import dataclasses
import pathlib

import gymnasium as gym
import numpy as np

import ploff.datasets
from ploff import environments
from ploff.collection import collect
from ploff.evaluation import episode_seeds, evaluate
from ploff.progress import console, track
from ploff.transitions import Origin, Transitions

TASK = "hopper"
DIRECTIONS, KEPT = 8, 4  # tried and used in each turn of the search
STEP_SIZE, PERTURBATION = 0.01, 0.025
SNAPSHOT_EVERY = 10  # turns of the search
NOISE = 0.2  # deviation of the noise on actions


@dataclasses.dataclass(frozen=True)
class LinearPolicy:
    """a = W (o − mean)/deviation + noise; the environment clips it to [−1, 1]."""

    weights: np.ndarray  # [A, O]
    mean: np.ndarray  # [O]
    deviation: np.ndarray  # [O]
    noise: float = 0.0
    draw: np.random.Generator = dataclasses.field(default_factory=np.random.default_rng)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions [B, A] for observations [B, O]."""
        actions = ((observations - self.mean) / self.deviation) @ self.weights.T
        return actions + self.noise * self.draw.standard_normal(actions.shape)


class Moments:
    """Mean and deviation of all observations seen so far (Welford)."""

    def __init__(self, width: int):
        self.count, self.mean, self._squares = 0, np.zeros(width), np.zeros(width)

    def add(self, observation: np.ndarray) -> None:
        """Takes one observation in."""
        self.count += 1
        before = observation - self.mean
        self.mean = self.mean + before / self.count
        self._squares = self._squares + before * (observation - self.mean)

    def deviation(self) -> np.ndarray:
        """Standard deviation; 1 before anything was seen."""
        if self.count < 2:
            return np.ones_like(self.mean)
        return np.maximum(np.sqrt(self._squares / self.count), 1e-3)


def speed(env: gym.Env, policy: LinearPolicy, moments: Moments, seed: int) -> float:
    """Return of one episode without the bonus for standing."""
    gain = policy.weights / policy.deviation
    observation, _ = env.reset(seed=seed)
    total, done = 0.0, False
    while not done:
        moments.add(observation)
        observation, reward, terminal, cut, _ = env.step(gain @ (observation - policy.mean))
        total += float(reward) - 1.0
        done = terminal or cut
    return total


def search(turns: int, seed: int) -> list[LinearPolicy]:
    """Snapshots of the policy on its way."""
    env = environments.make(TASK)
    actions, width = environments.action_space_of(env).width, int(np.prod(env.observation_space.shape or ()))
    draw, moments, weights = np.random.default_rng(seed), Moments(width), np.zeros((actions, width))
    seeds = iter(episode_seeds(seed, turns * DIRECTIONS * 2))
    snapshots: list[LinearPolicy] = []
    with track("searching", turns) as tracker:
        for turn in range(1, turns + 1):
            centre = LinearPolicy(weights, moments.mean.copy(), moments.deviation())
            directions = draw.standard_normal((DIRECTIONS, actions, width))
            returns = np.array(
                [[_try(env, centre, sign * d, moments, next(seeds)) for sign in (1, -1)] for d in directions]
            )
            best = np.argsort(-returns.max(axis=1))[:KEPT]
            slope = np.einsum("d,dao->ao", returns[best, 0] - returns[best, 1], directions[best])
            weights = weights + STEP_SIZE / (KEPT * returns[best].std()) * slope
            if turn % SNAPSHOT_EVERY == 0:
                snapshots.append(dataclasses.replace(centre, weights=weights))
            tracker.update(turn, {"steps": moments.count, "speed": float(returns.max())})
    return snapshots


def _try(env: gym.Env, centre: LinearPolicy, direction: np.ndarray, moments: Moments, seed: int) -> float:
    shifted = dataclasses.replace(centre, weights=centre.weights + PERTURBATION * direction)
    return speed(env, shifted, moments, seed)


def mixture(snapshots: list[LinearPolicy], count: int, seed: int) -> Transitions:
    """The log: as much of every snapshot as of any other."""
    ends = np.linspace(0, count, len(snapshots) + 1).round().astype(int)
    parts = []
    for number, (policy, share) in enumerate(zip(snapshots, np.diff(ends), strict=True)):
        noisy = dataclasses.replace(policy, noise=NOISE, draw=np.random.default_rng([seed, number]))
        parts.append(collect(TASK, policy=noisy, transitions=int(share), seed=seed + number))
        scores = environments.normalised_score(
            parts[-1].episode_returns(), environments.reference_scores(TASK)
        )
        console.print(
            f"snapshot {number}: score {evaluate(policy, TASK, seed=seed).mean_score:.1f}, "
            f"with noise {scores.mean():.1f} ({share:,} transitions, {len(scores)} episodes)"
        )
    return joined(parts)


def joined(parts: list[Transitions]) -> Transitions:
    """Several logs as one."""
    references = environments.reference_scores(TASK)
    return Transitions.from_rows(
        observations=np.concatenate([part.observations[: len(part)] for part in parts]),
        actions=np.concatenate([part.actions for part in parts]),
        rewards=np.concatenate([part.rewards for part in parts]),
        terminals=np.concatenate([part.terminals for part in parts]),
        timeouts=np.concatenate([part.timeouts for part in parts]),
        next_observations=np.concatenate([part.next_observations() for part in parts]),
        action_space=parts[0].action_space,
        origin=Origin(name="sample", environment=TASK, physics="d4rl", reference_scores=references),
    )


def main() -> None:
    """Searches, collects, writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=140)
    parser.add_argument("--transitions", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default="src/ploff/datasets/sample.npz")
    options = parser.parse_args()
    log = mixture(search(options.turns, options.seed), options.transitions, options.seed)
    path = ploff.datasets.save(log, options.out, overwrite=True)
    console.print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, {len(log):,} transitions")


if __name__ == "__main__":
    main()
