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
FEW = 20  # distances above it are written without decimals


def draw_gridworld(maze: Maze, exact: Any, learned: Any = None, visits: Any = None) -> "Figure":
    """The maze, and how far each state is from the central one and from the goal.

    Colors grow with the root of the distance, so that what is near is told apart, too; numbers stand in the cells.

    Args:
      maze: the maze.
      exact: distances between states, shape [S, S].
      learned: learned ones of the same shape: they stand beside the exact ones, and their error beside both. None
        draws the exact ones alone.
      visits: how often each action was logged in each state, shape [S, A]: a row that holds the error of each state's
        learned distances against it. None leaves the row out.
    """
    named = {"exact": np.asarray(exact)} | ({} if learned is None else {"learned": np.asarray(learned)})
    count = len(maze.cells)
    for name, distances in named.items():
        if distances.shape != (count, count):
            raise PloffError(f"{name} distances must have shape ({count}, {count}), got {distances.shape}")
    sources = {"the central state": maze.center, "the goal": maze.goal}
    if learned is None:
        axes = new_figure(10.5, 3.2).subplots(1, 3, squeeze=False)
        panels = [axes[0, 1:2], axes[0, 2:3]]
    else:
        axes = new_figure(14.5, 3.4 * (3 if visits is not None else 2)).subplots(
            3 if visits is not None else 2, 4, squeeze=False
        )
        panels = [axes[0, 1:], axes[1, 1:]]
        _draw_agreement(axes[1, 0], named["exact"], named["learned"])
    _draw_maze(axes[0, 0], maze)
    for row, (title, source) in zip(panels, sources.items(), strict=True):
        _draw_source(row, maze, title, source, named)
    if learned is not None and visits is not None:
        _draw_errors(axes[2], maze, state_errors(named["learned"], named["exact"]), np.asarray(visits))
    return axes[0, 0].figure


def _draw_source(axes: Any, maze: Maze, title: str, source: int, named: dict[str, np.ndarray]) -> None:
    """Distances from one state, of each kind in the same colors; and their difference."""
    highest = max(float(distances[source].max()) for distances in named.values())
    norm = require("matplotlib.colors", extra="plot").PowerNorm(0.5, vmin=0, vmax=highest)
    color = CENTER if source == maze.center else GOAL
    for axis, (name, distances) in zip(axes, named.items(), strict=False):
        axis.set_title(f"{name} distance from {title}", fontsize=10)
        image = _draw_cells(axis, maze, distances[source], cmap="viridis", norm=norm)
        _write_numbers(axis, maze, distances[source], source, "{:.0f}" if highest > FEW else "{:.1f}")
        _mark(axis, maze, source, color)
        axis.figure.colorbar(image, ax=axis, shrink=0.9)
    if len(named) == 2:
        error = named["learned"][source] - named["exact"][source]
        share = np.abs(error).mean() / named["exact"][source].mean()
        axes[2].set_title(f"learned − exact: off by {share:.1%} on average", fontsize=10)
        largest = max(float(np.abs(error).max()), 1e-9)
        image = _draw_cells(axes[2], maze, error, cmap="RdBu_r", vmin=-largest, vmax=largest)
        _write_numbers(axes[2], maze, error, source, "{:+.0f}" if highest > FEW else "{:+.1f}")
        _mark(axes[2], maze, source, color)
        axes[2].figure.colorbar(image, ax=axes[2], shrink=0.9)


def _write_numbers(axis: "Axes", maze: Maze, values: np.ndarray, source: int, form: str) -> None:
    """The values in their cells but the source's, in a color that can be read on the cell's own."""
    image = axis.images[0]
    for state, ((row, column), value) in enumerate(zip(maze.cells, values, strict=True)):
        if state == source:
            continue
        red, green, blue, _ = image.cmap(image.norm(value))
        ink = "black" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
        text = form.format(value)
        text = "0" if not text.strip("+-0.") else text
        axis.text(column, row, text, ha="center", va="center", fontsize=6, color=ink)


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
    axes[0].set(xlabel="times its rarest action was logged", ylabel="error, %", box_aspect=1)
    axes[0].set_title("error of each state's distances", fontsize=10)
    shown = {
        "error of each state's distances, % of the mean": 100 * errors,
        "log₁₀(1 + times its rarest action was logged)": np.log10(1 + rarest),
    }
    for axis, (title, values) in zip(axes[1:], shown.items(), strict=False):
        axis.set_title(title, fontsize=10)
        axis.figure.colorbar(_draw_cells(axis, maze, values, cmap="viridis", vmin=0), ax=axis, shrink=0.9)
    for unused in axes[1 + len(shown) :]:
        unused.set_axis_off()


def _draw_cells(axis: "Axes", maze: Maze, values: np.ndarray, **colors: Any) -> Any:
    """One color per free cell; walls are the background."""
    axis.set_facecolor(WALL)
    axis.set(xticks=[], yticks=[])
    return axis.imshow(np.ma.masked_invalid(maze.grid(values)), **colors)


def _mark(axis: "Axes", maze: Maze, state: int, color: str, label: str | None = None) -> None:
    row, column = maze.cells[state]
    axis.scatter(column, row, s=90, color=color, edgecolors="white", linewidths=1, label=label)
