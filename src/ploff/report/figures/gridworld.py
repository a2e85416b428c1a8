"""Figure 2: the gridworld, and distances from its central state and from its goal."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ploff.report.figures.canvas import new_figure
from ploff.theory.gridworld import Maze
from ploff.theory.learned_distances import state_errors
from ploff.utils.errors import PloffError, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WALL, FREE, GOAL, CENTER = "#2f3640", "#f5f6fa", "#44bd32", "#e84118"


def draw_gridworld(maze: Maze, exact: Any, learned: Any = None, visits: Any = None) -> "Figure":
    """The maze, and how far each state is from the central one and from the goal.

    Args:
      maze: the maze.
      exact: distances between states, shape [S, S].
      learned: learned ones of the same shape: a second row in the same colors, and each pair's distance
        against its exact one. None leaves the row out.
      visits: how often each action was logged in each state, shape [S, A]: a third row that holds the error of
        each state's learned distances against it. None leaves the row out.
    """
    named = {"exact": np.asarray(exact)} | ({} if learned is None else {"learned": np.asarray(learned)})
    count = len(maze.cells)
    for name, distances in named.items():
        if distances.shape != (count, count):
            raise PloffError(f"{name} distances must have shape ({count}, {count}), got {distances.shape}")
    height = len(named) + (learned is not None and visits is not None)
    figure = new_figure(10.5, 3.2 * height)
    axes = figure.subplots(height, 3, squeeze=False)
    _draw_maze(axes[0, 0], maze)
    if learned is not None:
        _draw_agreement(axes[1, 0], named["exact"], named["learned"])
    if height == 3:
        _draw_errors(axes[2], maze, state_errors(named["learned"], named["exact"]), np.asarray(visits))
    for column, (title, source) in enumerate(
        {"the central state": maze.center, "the goal": maze.goal}.items(), start=1
    ):
        highest = max(float(distances[source].max()) for distances in named.values())
        for axis, (name, distances) in zip(axes[: len(named), column], named.items(), strict=True):
            axis.set_title(f"{name} distance from {title}", fontsize=10)
            image = _draw_cells(axis, maze, distances[source], cmap="viridis", vmin=0, vmax=highest)
            _mark(axis, maze, source, CENTER if source == maze.center else GOAL)
            figure.colorbar(image, ax=axis, shrink=0.9)
    return figure


def _draw_maze(axis: "Axes", maze: Maze) -> None:
    colors = require("matplotlib.colors", extra="plot").ListedColormap([FREE])
    _draw_cells(axis, maze, np.zeros(len(maze.cells)), cmap=colors)
    axis.set_title("maze", fontsize=10)
    _mark(axis, maze, maze.goal, GOAL, label="goal")
    _mark(axis, maze, maze.center, CENTER, label="central state")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False, fontsize=8)


def _draw_agreement(axis: "Axes", exact: np.ndarray, learned: np.ndarray) -> None:
    pairs = np.triu_indices(len(exact), k=1)
    highest = max(exact.max(), learned.max())
    axis.plot([0, highest], [0, highest], color=WALL, linewidth=1)
    axis.scatter(exact[pairs], learned[pairs], s=3, alpha=0.3, linewidths=0)
    axis.set(xlabel="exact distance", ylabel="learned distance", box_aspect=1)
    axis.set_title("all pairs of states", fontsize=10)


def _draw_errors(axes: Any, maze: Maze, errors: np.ndarray, visits: np.ndarray) -> None:
    rarest = visits.min(axis=1)
    axes[0].scatter(rarest, 100 * errors, s=12, alpha=0.6, linewidths=0)
    axes[0].set_xscale("symlog", linthresh=1)
    axes[0].set(xlabel="times its rarest action was logged", ylabel="% of the mean distance", box_aspect=1)
    axes[0].set_title("error of each state's distances", fontsize=10)
    shown = {
        "error of each state's distances, %": 100 * errors,
        "log₁₀(1 + times its rarest action was logged)": np.log10(1 + rarest),
    }
    for axis, (title, values) in zip(axes[1:], shown.items(), strict=True):
        axis.set_title(title, fontsize=10)
        axis.figure.colorbar(_draw_cells(axis, maze, values, cmap="viridis", vmin=0), ax=axis, shrink=0.9)


def _draw_cells(axis: "Axes", maze: Maze, values: np.ndarray, **colors: Any) -> Any:
    """One color per free cell; walls are the background."""
    axis.set_facecolor(WALL)
    axis.set(xticks=[], yticks=[])
    return axis.imshow(np.ma.masked_invalid(maze.grid(values)), **colors)


def _mark(axis: "Axes", maze: Maze, state: int, color: str, label: str | None = None) -> None:
    row, column = maze.cells[state]
    axis.scatter(column, row, s=60, color=color, edgecolors="white", linewidths=1, label=label)
