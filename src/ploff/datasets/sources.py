"""Where a suite's data comes from: with ploff, from this disk, from Minari, or from a file that someone must bring."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Literal

from ploff.datasets import is_place
from ploff.datasets.catalog import find_file, minari_id, paper_name, where_to_put

Status = Literal["bundled", "here", "download", "missing"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSource:
    """A task's dataset."""

    task: str
    status: Status
    load: str  # what `ploff.datasets.load` is to be given
    d4rl: str | None = None  # its name among D4RL's
    minari: str | None = None  # its name among Minari's

    def __str__(self) -> str:
        d4rl = f"D4RL {self.d4rl}" if self.d4rl else ""
        minari = f"Minari {self.minari}" if self.minari else "Minari: no such recordings" if self.d4rl else ""
        names = ", ".join(name for name in (d4rl, minari) if name)
        what = {
            "bundled": "comes with ploff",
            "here": f"here: {self.load}",
            "download": f"to be downloaded from Minari: {self.minari}",
            "missing": f"not here: {where_to_put(self.task)}",
        }[self.status]
        return f"{what}{f' ({names})' if names else ''}"


def short_name(task: str) -> str:
    """A task as people call it; a file by its name alone."""
    return pathlib.Path(task).stem if pathlib.Path(task).suffix else task


def short_names(tasks: Sequence[str]) -> dict[str, str]:
    """Each task's short name, or its own where others are called the same."""
    short = [short_name(task) for task in tasks]
    return {task: name if short.count(name) == 1 else task for task, name in zip(tasks, short, strict=True)}


def source_of(task: str) -> DataSource:
    """The place of a task's dataset; nothing is downloaded."""
    from ploff.datasets import minari

    if task == "sample":
        return DataSource(task=task, status="bundled", load=task)
    d4rl = paper_name(task)
    served = minari_id(d4rl) if d4rl else None
    names = {"task": task, "d4rl": d4rl, "minari": served}
    if is_place(pathlib.Path(task)):
        return DataSource(status="here", load=task, **names)
    if (file := find_file(task)) is not None:
        return DataSource(status="here", load=str(file), **names)
    stored = served or task.removeprefix("minari:")
    if stored in minari.local():
        return DataSource(status="here", load=stored, **{**names, "minari": stored})
    if served or task.startswith("minari:") or minari.may_be_served(task):
        return DataSource(status="download", load=stored, **{**names, "minari": stored})
    return DataSource(status="missing", load=task, **names)
