"""Measures how near a learned metric comes to the gridworld's exact distances, and how near any Euclidean one can.

    python benchmarks/gridworld.py --out benchmarks/results/gridworld.csv [--steps 10000]

Errors are means of |D − D*| over all pairs of states, as shares of the mean of D*. For the maze with its goal in the
corner and for the same with the goal in the middle of its room:

- `best fit`: a table of 32-dimensional embeddings fitted to D* itself by least squares;
- `own fixed point`: two tables, Φ and Ψ, each fitted to what the other says until nothing changes: the limit of the
  paper's losses without a network, without noise, and without averaging over a log;
- `learned, full log` and `learned, q-learning log`, for the corner: what `ploff gridworld` learns; also by how often a
  state's rarest action is in the log.
"""

import argparse
import pathlib

import numpy as np

from ploff.theory import FiniteMDP, exact_state_distances
from ploff.theory.gridworld import Maze, full_coverage_log, q_learning
from ploff.theory.learned_distances import (
    count_visits,
    errors_by_visits,
    learn_distances,
    relative_error,
)
from ploff.utils.files import write_csv

DISCOUNT, WIDTH = 0.9, 32
MIDDLE = Maze(Maze().drawing.replace("G", ".").replace("#.....#...#", "#.....#.G.#"))


def distances_between(x: np.ndarray) -> np.ndarray:
    """Computes ‖xᵢ − xⱼ‖, shape [n, n]."""
    squares = np.sum(x**2, axis=1)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0.0)) * (1 - np.eye(len(x)))


def classical_scaling(wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Makes embeddings from the leading eigenvectors of the centered squares, a little off, so that no two coincide."""
    centering = np.eye(len(wanted)) - 1 / len(wanted)
    values, vectors = np.linalg.eigh(-0.5 * centering @ wanted**2 @ centering)
    x = vectors[:, -WIDTH:] * np.sqrt(np.maximum(values[-WIDTH:], 0.0))
    return x + 1e-3 * rng.normal(size=x.shape)


def nearer(x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Takes one step of majorization (Guttman's transform): the squared error of the distances never rises."""
    now = distances_between(x)
    pull = np.where(now > 1e-9, -wanted / np.maximum(now, 1e-9), 0.0)
    np.fill_diagonal(pull, 0.0)
    np.fill_diagonal(pull, -pull.sum(axis=1))
    return pull @ x / len(x)


def best_fit(exact: np.ndarray, sweeps: int = 2000) -> np.ndarray:
    """Fits embeddings to the exact distances; returns theirs."""
    x = classical_scaling(exact, np.random.default_rng(0))
    for _ in range(sweeps):
        x = nearer(x, exact)
    return distances_between(x)


def own_fixed_point(mdp: FiniteMDP, exact: np.ndarray, sweeps: int = 2000) -> np.ndarray:
    """Finds the distances of Ψ where Φ fits |r₁ − r₂| + γ‖Ψ(s₁′) − Ψ(s₂′)‖ and Ψ fits E_u ‖Φ(s₁,u) − Φ(s₂,u)‖."""
    assert mdp.successors is not None
    rewards, after = mdp.rewards.reshape(-1), mdp.successors.reshape(-1)
    apart, rng = np.abs(rewards[:, None] - rewards), np.random.default_rng(0)
    phi = classical_scaling(apart + DISCOUNT * exact[np.ix_(after, after)], rng)
    psi = classical_scaling(exact, rng)
    shape = mdp.rewards.shape * 2
    for _ in range(sweeps):
        over_actions = np.einsum("iuju->ij", distances_between(phi).reshape(shape)) / mdp.num_actions
        phi = nearer(phi, apart + DISCOUNT * distances_between(psi)[np.ix_(after, after)])
        psi = nearer(psi, over_actions)
    return distances_between(psi)


def row(goal: str, source: str, error: float, *, steps: int = 0, states: int = 0, times: str = "") -> dict:
    """Makes a line of the table; `times`: how often the log has the rarest action of the states that it is about."""
    found = {"goal": goal, "distances": source, "steps": steps, "rarest_action_logged": times}
    return {**found, "states": states, "error": round(error, 4)}


def without_learning(goal: str, maze: Maze) -> list[dict]:
    """Measures how near Euclidean embeddings can come."""
    mdp = maze.mdp()
    exact = exact_state_distances(mdp, DISCOUNT)
    found = {"best fit": best_fit(exact), "own fixed point": own_fixed_point(mdp, exact)}
    return [row(goal, name, relative_error(d, exact), states=len(d)) for name, d in found.items()]


def with_learning(goal: str, maze: Maze, log: str, steps: int) -> list[dict]:
    """Measures how near the learned ones came: overall, and by what the log has of a state."""
    data = full_coverage_log(maze) if log == "full" else q_learning(maze).transitions
    exact = exact_state_distances(maze.mdp(), DISCOUNT)
    learned, source = learn_distances(data, DISCOUNT, steps, seed=0), f"learned, {log} log"
    return [
        row(goal, source, relative_error(learned, exact), steps=steps, states=len(exact)),
        *(
            row(goal, source, group.error, steps=steps, states=group.states, times=group.times)
            for group in errors_by_visits(learned, exact, count_visits(data))
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=10_000)
    options = parser.parse_args()
    rows = [*without_learning("corner", Maze()), *without_learning("middle", MIDDLE)]
    for log in ("full", "q-learning"):
        write_csv(options.out, rows)
        rows += with_learning("corner", Maze(), log, options.steps)
    write_csv(options.out, rows)
    for values in rows:
        print(*values.values())


if __name__ == "__main__":
    main()
