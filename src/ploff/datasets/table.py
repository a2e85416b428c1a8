"""Tables: anybody's logs in Parquet or delimited text, one row per step.

A field is a column of lists, or several columns with a common beginning (`obs_0`, `obs_1`, …; `state_speed`,
`state_angle`), found by the names in `columns.CONVENTIONS`, or named by the user. Columns with numbers are put in their
order, and then only they count; others stay in the table's. An episode column marks ends: where its value changes and
the step is not terminal, the recording was cut. So does a gap in time.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ploff.datasets import validate
from ploff.datasets.assemble import Options, Rows, assemble, describe, next_observations_if_needed, read_description
from ploff.datasets.columns import find_columns
from ploff.datasets.episodes import add_flags, episode_starts
from ploff.datasets.table_files import (
    TableFiles,
    check_same_columns,
    find_table_files,
    format_by_name,
    read_files,
)
from ploff.legal_actions import MASK
from ploff.schema import (
    UNSEEN,
    Feature,
    Missing,
    Schema,
    as_text,
    is_list,
    is_number,
    is_text,
    is_time,
    list_values,
    not_a_number,
    numbers,
    raw_values,
)
from ploff.transitions import Origin, Transitions
from ploff.utils.arrow import compute as pc
from ploff.utils.errors import DataError

SAMPLE_TEXTS = 1000  # texts that are looked at to tell a category from a number with a slip


def read(path: pathlib.Path, options: Options) -> Transitions:
    """Reads one file, or all that a glob or a folder stands for, and those of `options.table.more` behind them."""
    said = options.table
    paths = find_table_files([path, *said.more])
    format, source = format_by_name(paths[0]) or "parquet", _source(path, said.more)
    present = check_same_columns(paths, format, said.delimiter, said.ignore)
    columns = find_columns(source, present, options.columns, said)
    needed = [name for name in present if options.infos or any(name in names for names in columns.values())]
    files = read_files(source, paths, format, needed, said.delimiter, said.decimal)
    return from_files(files, columns, options, path.stem)


def from_dataframe(frame: Any, *, name: str = "frame", **reading: Any) -> Transitions:
    """Transitions from a frame of pandas, polars, Arrow or anything that speaks Arrow's interface, checked as a file.

    Args:
      frame: one row per step.
      name: what messages call it.
      **reading: keywords of `ploff.load`: columns, reward, missing, action_low, ….
    """
    options, table = Options.of(**reading), as_table(frame)
    columns = find_columns(name, table.column_names, options.columns, options.table)
    files = TableFiles(name, table, (pathlib.Path(name),), np.zeros(1, np.int64))
    return from_files(files, columns, options, name)


def as_table(frame: Any) -> pa.Table:
    """A frame, or columns by name, as an Arrow table; nothing is copied where both lay it out alike."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, Mapping) or hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    if hasattr(frame, "__dataframe__"):
        from pyarrow.interchange import from_dataframe as through_interface

        return through_interface(frame)
    raise DataError(f"a table is a frame of pandas, polars or Arrow, or columns by name; got {type(frame).__name__}")


def from_files(files: TableFiles, columns: dict[str, list[str]], options: Options, name: str) -> Transitions:
    """Transitions from rows that were read, and their columns by field."""
    source, table, said = files.source, files.table, options.table
    validate.check_present(source, ("observations", "actions", "rewards"), columns, table.column_names)
    if not len(table):
        raise DataError(f"{source} holds no transitions")
    arrays: dict[str, np.ndarray] = {}
    arrays["actions"], choices = _actions(files, columns["actions"], options)
    arrays["rewards"] = _rewards(files, columns["rewards"], said.reward)
    for field in {"terminals", "timeouts"} & set(columns):
        arrays[field] = _flags(files, field, columns[field][0])
    add_flags(files, columns, said.gap, arrays)
    starts = episode_starts(arrays["terminals"], arrays.get("timeouts"))
    schema, arrays["observations"] = _observations(files, columns, options, choices, starts)
    following, known = _following(files, columns, schema)
    if following is not None:
        common = np.result_type(arrays["observations"], following)
        arrays["observations"], following = arrays["observations"].astype(common), following.astype(common)
    origin, action_space = _described(source, table, name, schema)
    used = {name for names in columns.values() for name in names}
    rows = Rows(
        source=source,
        arrays=arrays,
        next_observations=following,
        known=known,
        infos=(_infos(files, used) if options.infos else {}) | _mask(files, columns),
        origin=origin,
        action_space=action_space,
    )
    if choices and options.choices is None:
        options = dataclasses.replace(options, choices=len(choices))
    return assemble(rows, options)


def _source(path: pathlib.Path, more: Sequence[str]) -> str:
    return f"{path} and {len(more)} more" if more else str(path)


def _described(source: str, table: pa.Table, name: str, schema: Schema) -> tuple[Origin, Any]:
    """What ploff wrote into its own files; of others, their name and their columns."""
    metadata = (table.schema.metadata or {}).get(b"ploff")
    return read_description(source, metadata.decode()) if metadata else (Origin(name=name, schema=schema), None)


def _mask(files: TableFiles, columns: Mapping[str, list[str]]) -> dict[str, np.ndarray]:
    """Which actions are legal, where columns say so: one per action in the order of their numbers, or one of lists."""
    parts = [_whole(files, name) for name in columns.get("action_mask", ())]
    if not parts:
        return {}
    return {MASK: parts[0] if len(parts) == 1 and parts[0].ndim > 1 else np.stack(parts, axis=1)}


def _infos(files: TableFiles, used: set[str]) -> dict[str, np.ndarray]:
    others = [field.name for field in files.table.schema if field.name not in used and is_number(field.type)]
    return {name: _whole(files, name) for name in others}


# Columns to arrays.


def _observations(
    files: TableFiles, columns: Mapping[str, list[str]], options: Options, choices: tuple[str, ...], starts: np.ndarray
) -> tuple[Schema, np.ndarray]:
    """What the observations are called, and their numbers."""
    said, names = options.table, columns["observations"]
    features = [_feature(files, name, name in said.categorical) for name in names]
    values = raw_values(features, files.table, source=files.source, place=files.place)
    if said.missing != "refuse":
        features = _filled(features, values, said.missing)
    schema = Schema(features=tuple(features), missing=said.missing, actions=tuple(columns["actions"]), choices=choices)
    return schema, schema.encode_raw(values, source=files.source, place=files.place, starts=starts)


def _feature(files: TableFiles, name: str, categorical: bool) -> Feature:
    """How a column is read: as it is typed, unless it is said to be categorical."""
    column = files.table.column(name)
    if is_list(column.type):
        width = int(pc.max(pc.list_value_length(column)).as_py() or 0)
        if not width:
            raise DataError(f"{files.source}: the lists in column {name!r} are empty; --ignore {name} leaves it out")
        return Feature(name=name, kind="list", width=width)
    if is_time(column.type):
        raise DataError(f"{files.source}: column {name!r} holds times; --columns time={name} or --ignore {name}")
    text = is_text(column.type)
    if text and not categorical and _is_mostly_numbers(column):
        raise DataError(f"{files.source}: {not_a_number(column, name, files.place)}")
    if text or categorical:
        return Feature(name=name, kind="category", categories=tuple(categories_of(column)), fill=UNSEEN)
    return Feature(name=name)


def categories_of(column: Any) -> list[str]:
    """The values of a column as text: numbers in their order, then words in theirs."""
    found = [value for value in pc.unique(as_text(column)).to_pylist() if value is not None]
    return sorted(found, key=lambda text: (not text.lstrip("-").isdigit(), len(text) * text.isdigit(), text))


def _is_mostly_numbers(column: pa.ChunkedArray) -> bool:
    """Whether most texts are numbers, so that the others are slips."""
    texts = as_text(column.drop_null().slice(0, SAMPLE_TEXTS)).to_pylist()
    numeric = sum(text.strip().lstrip("+-").replace(".", "", 1).replace(",", "", 1).isdigit() for text in texts)
    return 2 * numeric > len(texts)


def _filled(features: Sequence[Feature], values: np.ndarray, missing: Missing) -> list[Feature]:
    """The features with what stands for a missing value, and with flags where the data has gaps."""
    filled, start = [], 0
    for feature in features:
        if feature.kind != "list":
            own = values[:, start]
            gaps = np.isnan(own) if own.dtype.kind == "f" else np.zeros(1, bool)
            if feature.kind == "number" and gaps.all():
                raise DataError(f"column {feature.name!r} holds no value at all; --ignore {feature.name} leaves it out")
            mean = float(own[~gaps].mean(dtype=np.float64)) if gaps.any() else float(own.mean(dtype=np.float64))
            fill = mean if feature.kind == "number" else float(UNSEEN)
            feature = dataclasses.replace(feature, fill=fill, flagged=bool(missing == "mean+flag" and gaps.any()))
        filled.append(feature)
        start += feature.width
    return filled


def _following(
    files: TableFiles, columns: Mapping[str, list[str]], schema: Schema
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The next observations and where they are known, read as the observations are; None where nobody filled them."""
    names = columns.get("next_observations")
    if names is None:
        return None, None
    if len(names) != len(schema.features):
        raise DataError(
            f"{files.source}: {len(names)} columns of next observations ({', '.join(names)}) for "
            f"{len(schema.features)} of observations; they must agree"
        )
    known = ~np.all([np.asarray(files.table.column(name).is_null()) for name in names], axis=0)
    if not known.any():
        return None, None
    renamed = files.table.select(names).rename_columns([feature.name for feature in schema.features])
    rows = np.flatnonzero(known)
    logged = schema.encode(
        renamed.filter(pa.array(known)), source=files.source, place=lambda row: f"{files.place(int(rows[row]))} (next)"
    )
    following = np.zeros((len(known), *logged.shape[1:]), logged.dtype)
    following[known] = logged
    return following, known


def _actions(files: TableFiles, names: list[str], options: Options) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers side by side, or one choice by its number and what the choices are called."""
    first = files.table.column(names[0])
    named = is_text(first.type) or pa.types.is_boolean(first.type) or names[0] in options.table.categorical
    if len(names) == 1 and named and options.action_low is None:
        _refuse_gaps(files, names[0])
        if is_text(first.type) and _is_mostly_numbers(first) and names[0] not in options.table.categorical:
            raise DataError(f"{files.source}: {not_a_number(first, names[0], files.place)}")
        choices = categories_of(first)
        index = pc.index_in(as_text(first), value_set=pa.array(choices, pa.string()))
        return index.combine_chunks().to_numpy().astype(np.int32), tuple(choices)
    parts = [_whole(files, name) for name in names]
    return (parts[0] if len(parts) == 1 else np.stack(parts, axis=1)), ()


def _rewards(files: TableFiles, names: Sequence[str], weights: Mapping[str, float]) -> np.ndarray:
    """The reward's column, or the weighted sum of several."""
    if not weights:
        return _whole(files, names[0])
    return np.sum([np.float64(weights[name]) * _whole(files, name).astype(np.float64) for name in names], axis=0)


def _flags(files: TableFiles, field: str, name: str) -> np.ndarray:
    values = _whole(files, name)
    odd = np.flatnonzero((values != 0) & (values != 1))
    if len(odd):
        raise DataError(
            f"{files.source}: {field} {name!r} is {values[odd[0]]} in {files.place(int(odd[0]))}; a flag is 0 or 1"
        )
    return values


def _whole(files: TableFiles, name: str) -> np.ndarray:
    """A column without gaps, as it is typed."""
    _refuse_gaps(files, name)
    column = files.table.column(name).combine_chunks()
    if is_list(column.type):
        width = int(pc.max(pc.list_value_length(column)).as_py() or 0)
        return list_values(column, Feature(name=name, kind="list", width=width), files.source, files.place)
    if pa.types.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False)
    return numbers(column, name, files.source, files.place)


def _refuse_gaps(files: TableFiles, name: str) -> None:
    """Nothing can stand for an action, a reward or an end that was not logged."""
    column = files.table.column(name)
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise DataError(
            f"{files.source}: {column.null_count} values of {name!r} are missing, first in {files.place(row)}; "
            "fill them in, or leave those episodes out"
        )


def write(transitions: Transitions, path: pathlib.Path) -> None:
    """Writes one column per number: observation_0 …, action_0 … (or action), reward, flags, episode."""
    import pyarrow.csv
    import pyarrow.parquet

    count, states = len(transitions), np.asarray(transitions.observations)
    if states.ndim != 2:
        raise DataError(f"observations of shape {states.shape[1:]} do not fit into a table; write .npz or .hdf5")
    actions = np.asarray(transitions.actions)
    columns: dict[str, pa.Array] = _spread("observation", states[:count])
    columns |= _spread("action", actions) if actions.ndim == 2 else {"action": pa.array(actions)}
    columns["reward"] = pa.array(np.asarray(transitions.rewards))
    columns["terminal"] = pa.array(np.asarray(transitions.terminals))
    columns["timeout"] = pa.array(np.asarray(transitions.timeouts))
    columns["episode"] = pa.array(np.repeat(np.arange(len(transitions.episode_ends())), transitions.episode_lengths()))
    successors, known = next_observations_if_needed(transitions)
    if successors is not None:
        columns |= _spread("next_observation", successors, None if known is None else ~known)
    table = pa.table(columns)
    if path.suffix.lower() == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        noted = table.replace_schema_metadata({"ploff": describe(transitions)})
        pyarrow.parquet.write_table(noted, path, write_page_checksum=True)


def _spread(name: str, values: np.ndarray, empty: np.ndarray | None = None) -> dict[str, pa.Array]:
    return {f"{name}_{i}": pa.array(values[:, i], mask=empty) for i in range(values.shape[1])}
