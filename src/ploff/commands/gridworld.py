"""`ploff gridworld`: the paper's Figure 2."""

import dataclasses
import pathlib


@dataclasses.dataclass
class Gridworld:
    """Draw the gridworld, and the exact distances from its central state and from its goal."""

    out: pathlib.Path  # folder for gridworld.png; made if it is not there
    discount: float = 0.9  # γ of the distance

    def run(self) -> None:
        """Computes the distances and draws them."""
        from ploff.figures.canvas import save_figure
        from ploff.figures.gridworld import draw_gridworld
        from ploff.gridworld import Maze
        from ploff.progress import console
        from ploff.tabular import exact_state_distances

        maze = Maze()
        distances = exact_state_distances(maze.mdp(), self.discount)
        path = self.out / "gridworld.png"
        save_figure(draw_gridworld(maze, distances), path)
        console.print(f"wrote {path}", highlight=False)
