"""Small pieces of HTML that the parts of the page share."""

import html
from collections.abc import Mapping, Sequence

from ploff.experiments.tables import Table


def table_of(table: Table, style: str = "", methods: Mapping[str, str] | None = None) -> str:
    """A table: the paper's columns are gray, rows of means stand out, and methods have their color beside their name.

    Args:
      table: the text.
      style: "wrap" for rows of words, which are stacked where the window is narrow.
      methods: the look of each method, by its name.
    """
    kinds = ["paper" if name.endswith("(paper)") else "" for name in table.header]
    looks, labels = methods or {}, [""] * len(kinds)
    head = _cells("th", table.header, kinds, labels, looks)
    body = "".join(
        f"<tr{' class=mean' if row[0].startswith('mean,') else ''}>{_cells('td', row, kinds, table.header, looks)}</tr>"
        for row in table.rows
    )
    return f'<div class="scroll {style}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(
    tag: str, cells: Sequence[str], kinds: Sequence[str], labels: Sequence[str], looks: Mapping[str, str]
) -> str:
    parts = []
    for cell, kind, label in zip(cells, kinds, labels, strict=True):
        attributes = (f' class="{kind}"' if kind else "") + (f' data-label="{html.escape(label)}"' if label else "")
        parts.append(f"<{tag}{attributes}>{swatch(looks[cell]) if cell in looks else ''}{html.escape(cell)}</{tag}>")
    return "".join(parts)


def swatch(look: str) -> str:
    """A method's color, beside its name."""
    return f'<i class="swatch {look}"></i>'


def charts_or_nothing(charts: Sequence[str], text: str = "") -> str:
    """Charts side by side under a text; nothing where there are none."""
    if not charts:
        return ""
    return (note(text) if text else "") + f'<div class="charts">{"".join(charts)}</div>'


def note(text: str) -> str:
    """A paragraph of explanation."""
    return f'<p class="note">{html.escape(text)}</p>'
