"""Times ten hopper episodes side by side against one after the other, both with a jitted policy.

    python benchmarks/evaluation.py [--repeats 7] [--environment hopper] [--physics d4rl] [--episodes 10]

The policy is fixed: it stands nearly still, so that episodes last long enough to measure. One after the
other means one environment, one jitted call of the policy per step. Both sides are measured in turn, so that
whatever else the machine does falls on both. The returns of both runs of the same seed are compared, too.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from ploff import environments
from ploff.environments.evaluation import episode_seeds, evaluate


def fixed_policy(width: int, actions: int):
    """Makes a jitted network of the usual size, scaled down so that its actions are small."""
    keys = jax.random.split(jax.random.key(0), 3)
    sizes = [(width, 256), (256, 256), (256, actions)]
    layers = [jax.random.normal(k, s) / jnp.sqrt(s[0]) for k, s in zip(keys, sizes, strict=True)]

    @jax.jit
    def policy(observations):
        hidden = jnp.tanh(jnp.tanh(observations @ layers[0]) @ layers[1])
        return 0.05 * jnp.tanh(hidden @ layers[2])

    return policy


def one_after_the_other(policy, environment: str, physics, episodes: int, seed: int) -> int:
    """Runs the loop that an evaluation is usually written as; returns the steps done."""
    env, steps = environments.make(environment, physics), 0
    for episode_seed in episode_seeds(seed, episodes):
        observation, _ = env.reset(seed=episode_seed)
        done = False
        while not done:
            action = np.asarray(policy(observation[None].astype(np.float32)))[0]
            observation, _, terminal, cut, _ = env.step(action)
            done, steps = terminal or cut, steps + 1
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--environment", default="hopper")
    parser.add_argument("--physics", default="d4rl")
    parser.add_argument("--episodes", type=int, default=10)
    options = parser.parse_args()
    task = options.environment, options.physics, options.episodes
    env = environments.make(*task[:2])
    policy = fixed_policy(int(np.prod(env.observation_space.shape or ())), environments.action_space_of(env).width)

    def together(seed: int = 0):
        return evaluate(policy, task[0], physics=task[1], episodes=task[2], seed=seed)

    steps = one_after_the_other(policy, *task, seed=0)  # compiles
    first = together()
    times, returns = {"one after the other": [], "side by side": []}, []
    for _ in range(options.repeats):
        start = time.perf_counter()
        one_after_the_other(policy, *task, seed=0)
        middle = time.perf_counter()
        returns.append(together().returns)
        times["one after the other"].append(middle - start)
        times["side by side"].append(time.perf_counter() - middle)
    medians = {name: float(np.median(values)) for name, values in times.items()}
    ratios = np.divide(times["side by side"], times["one after the other"])
    for name, seconds in medians.items():
        print(f"{name:20} {seconds:7.3f} s  (median of {options.repeats}; least {min(times[name]):.3f})")
    print(f"{steps} steps one after the other, {first.lengths.sum()} side by side")
    print(f"identical returns in every repeat: {all(np.array_equal(first.returns, r) for r in returns)}")
    print(
        f"ratio of medians {medians['side by side'] / medians['one after the other']:.3f}, "
        f"median of ratios {np.median(ratios):.3f}, each {np.round(ratios, 3).tolist()}"
    )


if __name__ == "__main__":
    main()
