"""Names: what a dataset is called, which task a name speaks of, and where the data may lie."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from ploff.actions import ActionSpace
from ploff.tasks import TASKS, Family, References, has_reference, reference_scores, tasks_of
from ploff.transitions import Origin

PAPER_DATASETS = tuple(
    f"{task}-{quality}"
    for names, qualities in (
        (tasks_of("locomotion"), ("random", "medium", "medium-replay", "medium-expert")),
        (tasks_of("hand"), ("human", "cloned", "expert")),
    )
    for task in names
    for quality in qualities
)
HDF5_SUFFIXES = (".hdf5", ".h5")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A dataset that `load` knows by name."""

    name: str
    kind: str  # "bundled", "d4rl" (a file of D4RL's layout) or "minari"
    location: pathlib.Path | None = None  # None: known, but not on this disk
    minari_id: str | None = None  # the same recordings, under the name by which Minari serves them


def paper_name(name: str) -> str | None:
    """The paper's dataset that a name means, whichever version it adds: 'hopper-medium' of 'hopper-medium-v2'."""
    plain = re.sub(r"-v\d+$", "", name)
    return plain if plain in PAPER_DATASETS else None


def where_to_put(name: str) -> str:
    """What to do about a dataset of D4RL's that is not here."""
    return f"put D4RL's {name} (.hdf5) into this folder or one named by PLOFF_DATA"


def minari_id(name: str) -> str | None:
    """Minari's name for one of the paper's datasets: it has the hand's (its locomotion data is other)."""
    task, _, quality = name.partition("-")
    return f"D4RL/{task}/{quality}-v2" if task in tasks_of("hand") else None


def task_of(name: str) -> str | None:
    """The task that a dataset's name begins with: 'hopper' of 'hopper_medium-v2'."""
    first = re.split(r"[-_]", name)[0].lower()
    return first if first in TASKS else None


def described_by_name(name: str, action_shape: Sequence[int]) -> tuple[Origin, ActionSpace | None]:
    """What a D4RL file's name says about it: where it comes from, and that actions lie in [−1, 1]."""
    task = task_of(name)
    if task is None:
        return Origin(name=name), None
    origin = Origin(name=name, environment=task, physics="d4rl", reference_scores=TASKS[task].references)
    return origin, ActionSpace.box(-np.ones(action_shape), np.ones(action_shape))


def references_of(environment: str | None) -> References | None:
    """The returns that score 0 and 100 in an environment, where they are known."""
    return reference_scores(environment) if environment is not None and has_reference(environment) else None


def horizon_of(environment: str | None) -> int | None:
    """The steps after which one of D4RL's tasks cuts an episode."""
    return TASKS[environment].horizon if environment in TASKS else None


def family_of(name: str) -> Family:
    """The family of the task that a dataset's name begins with."""
    task = task_of(name)
    return TASKS[task].family if task is not None else "other"


def data_folders() -> list[pathlib.Path]:
    """Where files are looked for by name: the folders in PLOFF_DATA, and the working folder."""
    named = [pathlib.Path(folder) for folder in os.environ.get("PLOFF_DATA", "").split(os.pathsep) if folder]
    return [*named, pathlib.Path()]


def find_file(name: str) -> pathlib.Path | None:
    """The D4RL file of that name, '-' and '_' alike; of several versions the newest, unless one is named."""
    wanted = _plain(name)
    found = [path for path in _hdf5_files() if _plain(path.stem) == wanted]
    found = found or [path for path in _hdf5_files() if re.sub(r"-v\d+$", "", _plain(path.stem)) == wanted]
    return max(found, key=lambda path: (_version(path.stem), path.stem), default=None)


def list_datasets() -> list[Entry]:
    """Every dataset that `load` knows by name: bundled, on this disk, and the paper's."""
    entries = [Entry(name="sample", kind="bundled")]
    entries += [Entry(name=path.stem, kind="d4rl", location=path) for path in _hdf5_files()]
    from ploff.datasets import minari

    entries += [Entry(name=name, kind="minari", location=folder) for name, folder in minari.local().items()]
    missing = [name for name in PAPER_DATASETS if find_file(name) is None]
    return entries + [Entry(name=name, kind="d4rl", minari_id=minari_id(name)) for name in missing]


def _hdf5_files() -> Iterator[pathlib.Path]:
    seen = set()
    for folder in data_folders():
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if path.suffix in HDF5_SUFFIXES and path.is_file() and path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _version(name: str) -> int:
    match = re.search(r"-v(\d+)$", name)
    return int(match.group(1)) if match else -1
