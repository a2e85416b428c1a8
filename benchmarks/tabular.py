"""Times the exact distances: a sweep of F, its fixed point both ways, and F̂ from samples.

A sweep in plain NumPy stands beside the compiled one. Run: python benchmarks/tabular.py
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ploff.theory import FiniteMDP, apply_samples, bellman, draw_steps, iterate, over_shared_actions, solve
from ploff.theory.gridworld import Maze


def seconds(run: Callable[[], Any], repeats: int = 5) -> float:
    """Times some runs, after one that compiles; gives the median."""
    run()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def numpy_sweep(operator: Any, distances: np.ndarray) -> np.ndarray:
    rewards = operator.mdp.rewards.reshape(-1)
    states = operator.mdp.successors.reshape(-1)
    shared = over_shared_actions(distances, operator.next_actions)
    swept = np.abs(rewards[:, None] - rewards) + operator.discount * shared[np.ix_(states, states)]
    return swept.reshape(distances.shape)


def main() -> None:
    rng = np.random.default_rng(0)
    states, actions = 250, 4
    mdp = FiniteMDP.deterministic(rng.integers(states, size=(states, actions)), rng.random((states, actions)))
    operator = bellman(mdp, discount=0.9)
    distances = operator(operator.zero())
    np.testing.assert_allclose(operator(distances), numpy_sweep(operator, distances), atol=1e-12)
    compiled, plain = (
        seconds(lambda sweep=sweep: sweep(distances)) for sweep in (operator, lambda d: numpy_sweep(operator, d))
    )
    print(f"one sweep of F, {states * actions:,} state-action pairs (1,000,000 pairs of them), float64:")
    print(f"  compiled {1e3 * compiled:.1f} ms   NumPy {1e3 * plain:.1f} ms   ratio {plain / compiled:.2f}")

    followed = iterate(operator)
    print(f"fixed point by iteration, the same MDP, error <= {followed.error_bound:.1e}:")
    print(f"  {followed.sweeps} sweeps in {seconds(lambda: iterate(operator), 3):.2f} s")

    maze = bellman(Maze().mdp(), discount=0.9)
    apart = np.abs(iterate(maze).distances - solve(maze)).max()
    by_iteration, by_solution = (seconds(lambda find=find: find(maze)) for find in (iterate, solve))
    print(f"the gridworld's fixed point ({maze.mdp.rewards.size} state-action pairs):")
    print(f"  iteration {by_iteration:.3f} s   linear system {by_solution:.3f} s   they differ by {apart:.1e}")

    count = 500_000
    samples = [draw_steps(maze.mdp, count, rng) for _ in range(2)]
    rate = count / seconds(lambda: apply_samples(maze, maze.zero(), *samples), 3)
    print(f"sampled operator on the gridworld: {rate:,.0f} pairs of transitions per second")


if __name__ == "__main__":
    main()
