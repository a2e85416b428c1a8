"""Evaluates policies of Hopper with a larger angle at which episodes end: its expert leaps along that angle.

    python benchmarks/hopper_edge.py LOG RUN … [--limits 0.2 0.25] [--csv benchmarks/results/hopper_edge.csv]

An episode of Hopper ends where its torso leans by 0.2. LOG, in D4RL's layout, says how near to that its best episodes
come; each RUN is a folder of `ploff train`, and all of its seeds' policies are evaluated with the named limits in the
same ten episodes. A policy that scores far more with a larger limit has learned to leap as the expert does, and a
little higher.
"""

import argparse
import pathlib

import gymnasium as gym
import numpy as np

import ploff
from ploff.environments import normalized_score, reference_scores
from ploff.utils.files import write_csv

HEIGHT, ANGLE = 0, 1  # among the observations
LEAST_HEIGHT, STEPS, EPISODES = 0.7, 1_000, 10
FIRST_LEAP = 210  # steps in which the expert's first high leap has peaked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--limits", type=float, nargs="+", default=[0.2, 0.25])
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    angles, leaps = whole_episodes(ploff.load(options.log))
    print(f"{len(angles)} logged episodes of {STEPS} steps: largest angle {angles.min():.3f} to {angles.max():.3f},")
    print(f"first leaps to {leaps.mean():.3f} ± {leaps.std():.3f}")
    environment = ploff.make_environment("hopper", physics="d4rl")
    rows = []
    for run in options.runs:
        for result in ploff.load_run(run).seeds:
            policy = ploff.load_policy(run, result.seed)
            for limit in options.limits:
                returns, lengths, leaps = evaluated(policy, environment, limit)
                score = float(np.mean(normalized_score(returns, reference_scores("hopper"))))
                rows.append(
                    {
                        "run": run.name,
                        "seed": result.seed,
                        "trained": result.step,
                        "limit": limit,
                        "score": round(score, 1),
                        "steps": round(float(lengths.mean()), 1),
                        "leap": round(float(leaps.mean()), 3),
                    }
                )
                print(
                    "{run:>10} {seed} after {trained:,}, limit {limit:.2f}:"
                    " {score:6.1f}, {steps:6.1f} steps, leap {leap:.3f}".format(**rows[-1])
                )
    if options.csv:
        write_csv(options.csv, rows)


def whole_episodes(data: ploff.Transitions) -> tuple[np.ndarray, np.ndarray]:
    """Finds the largest angle of each episode that lasts to its end, and the height of its first leap."""
    lengths = np.asarray(data.episode_lengths())
    starts = (np.cumsum(lengths) - lengths)[lengths == STEPS]
    angles, heights = np.abs(np.asarray(data.observations)[:, [ANGLE, HEIGHT]]).T
    return (
        np.array([angles[start : start + STEPS].max() for start in starts]),
        np.array([heights[start : start + FIRST_LEAP].max() for start in starts]),
    )


def evaluated(policy: ploff.Policy, environment: gym.Env, limit: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs episodes that end at `limit`, whatever the environment says; gives returns, lengths and first leaps."""
    returns, lengths, leaps = np.zeros((3, EPISODES))
    for episode in range(EPISODES):
        observation, _ = environment.reset(seed=episode)
        while lengths[episode] < STEPS:
            action = np.asarray(policy(observation[None]))[0]
            observation, reward, *_ = environment.step(action)
            returns[episode] += float(reward)
            lengths[episode] += 1
            if lengths[episode] < FIRST_LEAP:
                leaps[episode] = max(leaps[episode], observation[HEIGHT])
            if abs(observation[ANGLE]) >= limit or observation[HEIGHT] <= LEAST_HEIGHT:
                break
    return returns, lengths, leaps


if __name__ == "__main__":
    main()
