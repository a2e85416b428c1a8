"""What a log's columns are worth, drawn."""

from typing import TYPE_CHECKING

import numpy as np

from ploff.relevance import Relevance
from ploff.relevance.summary import column_names
from ploff.report.figures.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BARS = 60  # columns that a picture has room for: the weightiest


def draw_relevance(relevance: Relevance) -> "Figure":
    """The share of every column with its interval, and the weight of every direction against the decoys'."""
    figure = new_figure(9, 3.4)
    columns, directions = figure.subplots(1, 2)
    order = np.argsort(-relevance.shares)[:MOST_BARS]
    shares, (low, high) = relevance.shares[order], relevance.intervals[order].T
    matters = np.asarray(relevance.relevant())[order]
    errors = np.abs(np.stack([shares - np.minimum(low, shares), np.maximum(high, shares) - shares]))
    colors = np.where(matters, "C0", "lightgray")
    columns.bar(np.arange(len(order)), 100 * shares, yerr=100 * errors, color=colors, ecolor="gray")
    names = [column_names(relevance)[i] for i in order]
    columns.set_xticks(np.arange(len(order)), names, rotation=90, fontsize=6)
    columns.set(title="what each column is worth", ylabel="share [%]", xlabel="column")
    numbers = np.arange(1, len(relevance.spectrum) + 1)
    directions.semilogy(numbers, np.maximum(relevance.spectrum, 1e-12), ".-", label="columns")
    directions.axhline(relevance.floor, color="black", linestyle=":", label="heaviest decoy")
    directions.set(title=f"{relevance.kept} of {len(numbers)} directions matter", xlabel="direction", ylabel="weight")
    directions.legend(frameon=False)
    return figure
