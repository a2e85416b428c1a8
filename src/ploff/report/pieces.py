"""Small pieces of HTML that the parts of the page share."""

import html
from collections.abc import Sequence

from ploff.experiments.tables import Table


def table_of(table: Table, style: str = "") -> str:
    """A table; the paper's columns are gray, and rows of means stand out."""
    kinds = ["paper" if name.endswith("(paper)") else "" for name in table.header]
    head = _cells("th", table.header, kinds)
    body = "".join(
        f"<tr{' class=mean' if row[0].startswith('mean,') else ''}>{_cells('td', row, kinds)}</tr>"
        for row in table.rows
    )
    return f'<div class="scroll {style}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(tag: str, cells: Sequence[str], kinds: Sequence[str]) -> str:
    return "".join(
        f"<{tag}{f' class={kind}' if kind else ''}>{html.escape(cell)}</{tag}>"
        for cell, kind in zip(cells, kinds, strict=True)
    )


def charts_or(charts: Sequence[str], nothing: str, text: str) -> str:
    """Charts side by side under a text, or why there are none."""
    if not charts:
        return note(nothing)
    return (note(text) if text else "") + f'<div class="charts">{"".join(charts)}</div>'


def note(text: str) -> str:
    """A paragraph of explanation."""
    return f'<p class="note">{html.escape(text)}</p>'
