"""Where a suite's data comes from: with ploff, from this disk, from Minari, or from a file that someone must bring."""

import dataclasses
import pathlib
from typing import Literal

from ploff.datasets.catalogue import PAPER_DATASETS, find_file, minari_id

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
            "missing": f"not here: put D4RL's {self.task} (.hdf5) into this folder or one named by PLOFF_DATA",
        }[self.status]
        return f"{what}{f' ({names})' if names else ''}"


def source_of(task: str) -> DataSource:
    """The place of a task's dataset; nothing is downloaded."""
    from ploff.datasets import minari_format

    if task == "sample":
        return DataSource(task=task, status="bundled", load=task)
    d4rl, served = (task, minari_id(task)) if task in PAPER_DATASETS else (None, None)
    names = {"task": task, "d4rl": d4rl, "minari": served}
    if pathlib.Path(task).exists():
        return DataSource(status="here", load=task, **names)
    if (file := find_file(task)) is not None:
        return DataSource(status="here", load=str(file), **names)
    stored = served or task.removeprefix("minari:")
    if stored in minari_format.local():
        return DataSource(status="here", load=stored, **{**names, "minari": stored})
    if served or task.startswith("minari:") or (d4rl is None and minari_format.NAME.fullmatch(task)):
        return DataSource(status="download", load=stored, **{**names, "minari": stored})
    return DataSource(status="missing", load=task, **names)
