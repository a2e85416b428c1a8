"""Figure 2: the gridworld, and distances from its central state and from its goal."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ploff.errors import PloffError, require
from ploff.figures.canvas import new_figure
from ploff.gridworld import Maze

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WALL, FREE, GOAL, CENTRE = "#2f3640", "#f5f6fa", "#44bd32", "#e84118"


def draw_gridworld(maze: Maze, exact: Any, learned: Any = None) -> "Figure":
    """The maze, and how far each state is from the central one and from the goal.

    Args:
      maze: the maze.
      exact: distances between states, shape [S, S].
      learned: learned ones of the same shape: a second row in the same colours, and each pair's distance
        against its exact one. None leaves the row out.
    """
    named = {"exact": np.asarray(exact)} | ({} if learned is None else {"learned": np.asarray(learned)})
    count = len(maze.cells)
    for name, distances in named.items():
        if distances.shape != (count, count):
            raise PloffError(f"{name} distances must have shape ({count}, {count}), got {distances.shape}")
    figure = new_figure(10.5, 3.2 * len(named))
    axes = figure.subplots(len(named), 3, squeeze=False)
    _draw_maze(axes[0, 0], maze)
    if learned is not None:
        _draw_agreement(axes[1, 0], named["exact"], named["learned"])
    for column, (title, source) in enumerate(
        {"the central state": maze.centre, "the goal": maze.goal}.items(), start=1
    ):
        highest = max(float(distances[source].max()) for distances in named.values())
        for axis, (name, distances) in zip(axes[:, column], named.items(), strict=True):
            axis.set_title(f"{name} distance from {title}", fontsize=10)
            image = _draw_cells(axis, maze, distances[source], cmap="viridis", vmin=0, vmax=highest)
            _mark(axis, maze, source, CENTRE if source == maze.centre else GOAL)
            figure.colorbar(image, ax=axis, shrink=0.9)
    return figure


def _draw_maze(axis: "Axes", maze: Maze) -> None:
    colours = require("matplotlib.colors", extra="plot").ListedColormap([FREE])
    _draw_cells(axis, maze, np.zeros(len(maze.cells)), cmap=colours)
    axis.set_title("maze", fontsize=10)
    _mark(axis, maze, maze.goal, GOAL, label="goal")
    _mark(axis, maze, maze.centre, CENTRE, label="central state")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False, fontsize=8)


def _draw_agreement(axis: "Axes", exact: np.ndarray, learned: np.ndarray) -> None:
    pairs = np.triu_indices(len(exact), k=1)
    highest = max(exact.max(), learned.max())
    axis.plot([0, highest], [0, highest], color=WALL, linewidth=1)
    axis.scatter(exact[pairs], learned[pairs], s=3, alpha=0.3, linewidths=0)
    axis.set(xlabel="exact distance", ylabel="learned distance", box_aspect=1)
    axis.set_title("all pairs of states", fontsize=10)


def _draw_cells(axis: "Axes", maze: Maze, values: np.ndarray, **colours: Any) -> Any:
    """A colour a free cell; walls are the background."""
    axis.set_facecolor(WALL)
    axis.set(xticks=[], yticks=[])
    return axis.imshow(np.ma.masked_invalid(maze.grid(values)), **colours)


def _mark(axis: "Axes", maze: Maze, state: int, colour: str, label: str | None = None) -> None:
    row, column = maze.cells[state]
    axis.scatter(column, row, s=60, color=colour, edgecolors="white", linewidths=1, label=label)
