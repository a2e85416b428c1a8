"""Appendix C: logged states, and the states of other episodes that are nearest to them under d_Ψ."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ploff.report.figures.canvas import new_figure
from ploff.report.states import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_state_rows(name: str, rows: Sequence[Sequence[Picture]]) -> "Figure":
    """One row per logged state: the state itself, then the nearest ones, nearest first.

    Args:
      name: what the log is called.
      rows: the pictures.
    """
    width = max(len(row) for row in rows)
    figure = new_figure(1.7 * width, 2.05 * len(rows) + 0.4)
    figure.suptitle(f"{name}: a logged state, and the nearest of other episodes under dΨ", fontsize=10)
    axes = figure.subplots(len(rows), width, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for axis in line:
            axis.set_axis_off()
        for place, (axis, picture) in enumerate(zip(line, row, strict=False)):
            axis.imshow(picture.pixels)
            distance = f"dΨ = {picture.distance:.3g}" if place else "the state"
            axis.set_title(f"{distance}\nepisode {picture.episode}, step {picture.step}", fontsize=7)
    return figure
