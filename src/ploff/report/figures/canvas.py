"""A figure without global state, and its way to a file."""

import os
from typing import TYPE_CHECKING

from ploff.utils.errors import require
from ploff.utils.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, in inches, drawn without a display."""
    figure = require("matplotlib.figure", extra="plot").Figure(figsize=(width, height), layout="constrained")
    require("matplotlib.backends.backend_agg", extra="plot").FigureCanvasAgg(figure)
    return figure


def save_figure(figure: "Figure", path: str | os.PathLike[str], dots_per_inch: int = 150) -> None:
    """Writes the figure, whole or not at all; the suffix of `path` says in which format."""
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=dots_per_inch)
