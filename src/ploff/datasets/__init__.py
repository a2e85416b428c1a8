"""Disk or network → Transitions, and back; one module per format.

transitions = ploff.datasets.load("hopper-medium-v2.hdf5")
ploff.datasets.save(transitions, "hopper-medium.npz")
"""

import importlib
import importlib.resources
import os
import pathlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ploff.datasets import table_files, validate
from ploff.datasets.assemble import Options
from ploff.datasets.catalog import Entry, find_file, list_datasets, minari_id, paper_name, where_to_put
from ploff.transitions import Transitions
from ploff.utils.errors import DataError, UnknownNameError
from ploff.utils.files import atomic_write

__all__ = [
    "Entry", "check_target", "convert", "from_arrays", "from_dataframe", "is_place", "list_datasets", "load", "save",
]  # fmt: skip

MODULES = {"d4rl": "d4rl", "minari": "minari", "npz": "npz", "parquet": "table", "csv": "table"}
SUFFIXES = {".hdf5": "d4rl", ".h5": "d4rl", ".npz": "npz", ".parquet": "parquet", ".csv": "csv"}
BEGINNINGS = {b"\x89HDF\r\n\x1a\n": "d4rl", b"PK\x03\x04": "npz", b"PAR1": "parquet"}
MINARI_PREFIX = "minari:"


def load(
    name: str | os.PathLike[str],
    *,
    format: str | None = None,
    infos: bool = False,
    horizon: int | None = None,
    action_low: float | Sequence[float] | None = None,
    action_high: float | Sequence[float] | None = None,
    choices: int | None = None,
    environment: str | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    **table: Any,
) -> Transitions:
    """Reads a dataset and checks it.

    Args:
      name: a path, a name that `list_datasets` shows, or a Minari name (downloaded if it is not here).
      format: one of "d4rl", "minari", "npz", "parquet", "csv", if the file does not show it.
      infos: also carry the arrays that no learner needs.
      horizon: steps after which an episode was cut, for files that do not mark it.
      action_low: lower bound of the actions, one for all dimensions or one each; beats what the file says.
      action_high: upper bound, likewise.
      choices: number of actions, where they are choices.
      environment: where a policy is to be tried, for files that do not say.
      columns: a table's columns by field, {"observations": ["speed", "angle"], …}, if not by convention.
      **table: what else there is to say of a table: more, reward, ignore, categorical, missing, gap, delimiter,
        decimal; see `ploff.datasets.columns.TableOptions`.
    """
    options = Options.of(
        infos=infos,
        horizon=horizon,
        action_low=action_low,
        action_high=action_high,
        choices=choices,
        environment=environment,
        columns=columns,
        **table,
    )
    if str(name) == "sample":
        _refuse_table_options("sample", "npz", options)
        with importlib.resources.as_file(importlib.resources.files(__name__) / "sample.npz") as path:
            return _module("npz").read(path, options)
    path = _locate(str(name), format)
    found = format or format_of(path)
    _refuse_table_options(str(path), found, options)
    module = _module(found)
    with validate.reading(str(path), *_files_of(path, found, options)):
        return module.read(path, options)


def _files_of(path: pathlib.Path, format: str, options: Options) -> list[str]:
    """The files that are read with or in place of a path, by which a message may call it, too."""
    if MODULES.get(format) != "table" or not (options.table.more or table_files.is_collection(path)):
        return []
    return [str(file) for file in table_files.find_table_files([path, *options.table.more])]


def _refuse_table_options(name: str, format: str, options: Options) -> None:
    if options.table.given() and MODULES.get(format) != "table":
        raise DataError(f"{name} is no table: {options.table.given()[0]} is an option of tables alone")


def from_arrays(
    *,
    observations: Any,
    actions: Any,
    rewards: Any,
    terminals: Any = None,
    timeouts: Any = None,
    episodes: Any = None,
    next_observations: Any = None,
    observation_names: Sequence[str] | None = None,
    name: str = "arrays",
    **reading: Any,
) -> Transitions:
    """Transitions from arrays in memory with one row per step, checked as a file's are.

    Args:
      observations, actions, rewards: one row per step; whole numbers as actions are choices.
      terminals, timeouts: where the process ended, and where the recording was cut.
      episodes: a number or name per row; where it changes and the step is not terminal, the recording was cut.
      next_observations: the states that followed, where they were logged.
      observation_names: what the numbers of an observation are called.
      name: what messages call the data.
      **reading: keywords of `load`: horizon, action_low, action_high, choices, environment.
    """
    content = {
        "observations": observations, "actions": actions, "rewards": rewards, "terminals": terminals,
        "timeouts": timeouts, "episodes": episodes, "next_observations": next_observations,
        "observation_names": observation_names,
    }  # fmt: skip
    return _module("npz").from_named_arrays(name, content, Options.of(**reading))


def from_dataframe(frame: Any, *, name: str = "frame", **reading: Any) -> Transitions:
    """Transitions from a frame of pandas, polars or Arrow with one row per step, checked as a file is.

    Args:
      frame: anything that speaks Arrow's interface, or columns by name.
      name: what messages call it.
      **reading: keywords of `load`: columns, reward, missing, gap, action_low, ….
    """
    return _module("csv").from_dataframe(frame, name=name, **reading)


def save(
    transitions: Transitions, path: str | os.PathLike[str], *, format: str | None = None, overwrite: bool = False
) -> pathlib.Path:
    """Writes a dataset as it was logged, whole or not at all, and returns its place.

    Args:
      transitions: what to write; changes of units are left out.
      path: a file whose suffix tells the format; with format="minari" a folder; or "minari:NAME" for a
        dataset among Minari's own.
      format: as for `load`.
      overwrite: replace what is there.
    """
    path, format = check_target(path, format=format, overwrite=overwrite)
    if format == "minari":
        _module(format).write(transitions, path)
    else:
        with atomic_write(path) as partial:
            _module(format).write(transitions, partial)
    return path


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: str | None = None,
    overwrite: bool = False,
    **options: Any,
) -> pathlib.Path:
    """Writes a dataset in another format, every array and every episode's end kept, and returns its place.

    Args:
      source: as for `load`, which takes the `options`.
      target: as for `save`.
      to: the target's format, if its suffix does not show it.
      overwrite: replace what is there.
    """
    check_target(target, format=to, overwrite=overwrite)
    return save(load(source, infos=True, **options), target, format=to, overwrite=overwrite)


def check_target(
    path: str | os.PathLike[str], *, format: str | None = None, overwrite: bool = False
) -> tuple[pathlib.Path, str]:
    """Where and in which format `save` would write; an error where it would refuse to."""
    place, format = _target(str(path), format)
    if place.exists() and not overwrite:
        raise DataError(f"{place} exists already; --force (or overwrite=True) replaces it")
    if place.is_dir() and format != "minari":
        raise DataError(f"{place} is a folder; a {format} dataset is a file")
    return place, format


def column_names(data: Transitions) -> dict[str, list[str]]:
    """What a table calls the numbers of observations and actions; empty for data that is no table."""
    schema = data.origin.schema
    return {} if schema is None else {"observations": list(schema.components), "actions": list(schema.actions)}


def format_of(path: pathlib.Path) -> str:
    """A file's format, by its first bytes and its suffix, which must not contradict each other."""
    from ploff.datasets import minari

    if path.is_dir() and minari.is_dataset(path):
        return "minari"
    if table_files.is_collection(path):
        return table_files.format_by_name(table_files.find_table_files([path])[0]) or "parquet"
    validate.check_file(path)
    with open(path, "rb") as file:
        beginning = file.read(8)
    if table_files.format_by_name(path) == "csv" and path.suffix.lower() not in SUFFIXES:
        return "csv"  # tabs, or compressed
    content = next((kind for magic, kind in BEGINNINGS.items() if beginning.startswith(magic)), None)
    named = SUFFIXES.get(path.suffix.lower())
    if named is None and content is None:
        raise DataError(f"{path} is of no format that ploff reads; it reads {_suffixes()} and Minari's folders")
    if named is None:
        return str(content)
    if content is None and named != "csv":
        raise DataError(f"{path} is not {_article(named)} file: it begins with {beginning!r}")
    if content not in (None, named):
        raise DataError(
            f"{path} is named {path.suffix} but holds {content} data; rename it, or give --format {content}"
        )
    return named


def is_place(path: pathlib.Path) -> bool:
    """Whether a dataset lies there; the folder of a run may be called like its dataset."""
    from ploff.datasets import minari

    return path.is_file() or minari.is_dataset(path) or table_files.is_collection(path)


def _locate(name: str, format: str | None) -> pathlib.Path:
    """The file or folder that a name means."""
    from ploff.datasets import minari

    if name.startswith(MINARI_PREFIX):
        return minari.download(name.removeprefix(MINARI_PREFIX))
    path = pathlib.Path(name)
    minari.restore(path)
    if is_place(path):
        return path
    found = find_file(name) if format in (None, "d4rl") else None
    if found is not None:
        return found
    if name in minari.local():
        return minari.root() / name
    if path.suffix.lower() in SUFFIXES or table_files.format_by_name(path) or path.exists():
        validate.check_file(path)
    if minari.may_be_served(name):
        return minari.download(name)
    if (known := paper_name(name)) is not None:
        served = minari_id(known)
        other = f", or load {served!r} from Minari" if served else ""
        raise DataError(f"{name} is not here: {where_to_put(name)}{other}")
    known = [entry.name for entry in list_datasets()]
    raise UnknownNameError("dataset", name, known, "(`ploff data list` shows all; a file is given by its path)")


def _target(name: str, format: str | None) -> tuple[pathlib.Path, str]:
    from ploff.datasets import minari

    if format is not None and format not in MODULES:
        raise UnknownNameError("format", format, MODULES)
    if name.startswith(MINARI_PREFIX):
        return minari.root() / name.removeprefix(MINARI_PREFIX), "minari"
    path = pathlib.Path(name)
    named = format or SUFFIXES.get(path.suffix.lower())
    if named is None:
        raise DataError(f"cannot tell a format from {name!r}; end it in {_suffixes()}, or give --format minari")
    return path, named


def _module(format: str) -> ModuleType:
    if format not in MODULES:
        raise UnknownNameError("format", format, MODULES)
    return importlib.import_module(f"ploff.datasets.{MODULES[format]}")


def _suffixes() -> str:
    return ", ".join(SUFFIXES)


def _article(format: str) -> str:
    return {"d4rl": "an HDF5", "npz": "an NPZ", "parquet": "a Parquet", "csv": "a CSV"}[format]
