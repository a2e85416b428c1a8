"""`ploff gridworld`: the paper's Figure 2."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ploff.theory.gridworld import Maze


@dataclasses.dataclass
class Gridworld:
    """Draw the gridworld of Figure 2 and its distances, exact and learned."""

    out: pathlib.Path
    """Folder for gridworld.png; it is made if it is not there."""
    log: Literal["q-learning", "full"] = "q-learning"
    """What Q-learning saw, as in the paper, or every transition once."""
    steps: int = 40_000
    """Steps of metric learning; 0 draws the exact distances alone."""
    discount: float = 0.99
    """Discount of the distance. At 0.9, all that is outside of the goal's room looks alike."""
    seed: int = 0
    """Seeds every random draw."""

    def run(self) -> None:
        """Computes the distances and draws them."""
        from ploff.report.figures.canvas import save_figure
        from ploff.report.figures.gridworld import draw_gridworld
        from ploff.theory import exact_state_distances
        from ploff.theory.gridworld import Maze, full_coverage_log, q_learning
        from ploff.theory.learned_distances import count_visits, learn_distances
        from ploff.utils.progress import say

        maze = Maze()
        exact, learned, visits = exact_state_distances(maze.mdp(), self.discount), None, None
        if self.steps:
            full = self.log == "full"
            log = full_coverage_log(maze) if full else q_learning(maze, seed=self.seed).transitions
            learned = learn_distances(log, self.discount, self.steps, self.seed)
            visits = None if full else count_visits(log)
            for line in _report(log.origin.name, maze, exact, learned, visits):
                say(line)
        path = self.out / "gridworld.png"
        save_figure(draw_gridworld(maze, exact, learned, visits), path)
        say(f"wrote {path}")


def _report(name: str, maze: "Maze", exact: Any, learned: Any, visits: Any) -> list[str]:
    """How far the learned distances are from the exact ones, where they are worst, and what the log has there."""
    from ploff.theory.learned_distances import errors_by_visits, relative_error, state_errors

    lines = [f"learned from {name}: mean error {relative_error(learned, exact):.1%} of the mean distance"]
    if visits is None:
        return lines
    lines += [
        f"  rarest action logged {group.times} times: {group.states} states, error {group.error:.1%}"
        for group in errors_by_visits(learned, exact, visits)
    ]
    errors = state_errors(learned, exact)
    for state in errors.argsort()[:-4:-1]:
        (row, column), counts = maze.cells[state], ", ".join(map(str, visits[state]))
        lines.append(f"  worst: row {row}, column {column}, error {errors[state]:.1%}, actions logged {counts}")
    return lines
