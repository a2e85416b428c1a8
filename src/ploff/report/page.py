"""Everything to one HTML page: no script, no file beside it, nothing fetched."""

import html
import importlib.resources
import os
import pathlib
import string
from collections.abc import Sequence

from ploff.report import judged, sections
from ploff.report.gather import ReportData, gather
from ploff.report.headline import headline, settings
from ploff.utils import files

PARTS = (
    ("headline", "In short", headline),
    ("runs", "What was run", sections.what_was_run),
    ("settings", "Settings", settings),
    ("scores", "Scores", sections.scores),
    ("curves", "Learning curves", sections.learning_curves),
    ("values", "Q against its bound", sections.values),
    ("distance", "Distance to the data", sections.distance),
    ("judgment", "Judged by the log", judged.judgments),
    ("metric", "Learning the metric", sections.metric),
    ("noise", "The metric against noise", sections.noise),
    ("states", "Nearest states", sections.states),
)


def write_report(
    runs: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, pictures: bool = True
) -> pathlib.Path:
    """Writes the page about runs, whole or not at all, and returns its place.

    Args:
      runs: run folders, folders of them, or folders of suites.
      out: the HTML file.
      pictures: draw states; it takes some seconds, and a way to draw.
    """
    page = render_page(gather(runs), pictures=pictures)
    with files.atomic_write(out) as partial:
        partial.write_text(page, encoding="utf-8")
    return pathlib.Path(out)


def render_page(story: ReportData, *, pictures: bool = True) -> str:
    """The page as HTML; a part that has nothing to tell is left out."""
    parts = [part for part in PARTS if part[0] != "states" or pictures]
    told = [(name, title, content) for name, title, tell in parts if (content := tell(story))]
    pages = [f'<section id="{name}"><h2>{title}</h2>{content}</section>' for name, title, content in told]
    links = [f'<a href="#{name}">{title}</a>' for name, title, _ in told]
    count = sum(len(group.seeds) for group in story.groups)
    config = story.groups[0].config
    versions = ", ".join(f"{name} {version}" for name, version in config["versions"].items())
    return string.Template(_file("page.html")).substitute(
        title=html.escape(f"PLOff: {story.title}"),
        style=_file("page.css"),
        subtitle=f"{count} runs, {len(story.columns)} method(s), {len(story.tasks)} dataset(s)",
        contents="".join(links),
        sections="\n".join(pages),
        footer=html.escape(f"Made with {versions}."),
    )


def _file(name: str) -> str:
    return (importlib.resources.files("ploff.report") / name).read_text(encoding="utf-8")
