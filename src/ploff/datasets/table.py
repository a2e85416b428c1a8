"""Tables: anybody's logs in Parquet or CSV, one row per step.

A field is a column of lists, or several columns with a common beginning (`obs_0`, `obs_1`, …; `state_speed`,
`state_angle`), found by the names in CONVENTIONS, or named by the user. Columns with numbers are put in their
order, and then only they count; others stay in the table's. An episode column marks ends: where its value changes and
the step is not terminal, the recording was cut.
"""

import pathlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ploff.datasets import validate
from ploff.datasets.assemble import Options, Rows, assemble, describe, next_observations_if_needed, read_description
from ploff.datasets.limits import check_parquet, check_text
from ploff.transitions import Origin, Transitions
from ploff.utils.errors import DataError

CONVENTIONS = {  # names that a field goes by, the likeliest first
    "observations": ("observations", "observation", "obs", "states", "state"),
    "actions": ("actions", "action", "act"),
    "rewards": ("rewards", "reward"),
    "terminals": ("terminals", "terminal", "terminated", "termination", "dones", "done"),
    "timeouts": ("timeouts", "timeout", "truncated", "truncation"),
    "next_observations": ("next_observations", "next_observation", "next_obs", "next_states", "next_state"),
    "episodes": ("episodes", "episode", "episode_id", "trajectory", "trajectory_id"),
}
VECTORS = ("observations", "actions", "next_observations")


def read(path: pathlib.Path, options: Options) -> Transitions:
    """Reads a Parquet or CSV file."""
    table = _open(path)
    source, columns = str(path), find_columns(str(path), table.column_names, options)
    validate.check_present(source, ("observations", "actions", "rewards"), columns, table.column_names)
    arrays = {
        field: _values(source, table, names, gaps=field == "next_observations")
        for field, names in columns.items()
        if field != "episodes"
    }
    following, known = arrays.pop("next_observations", None), None
    if following is not None:
        known = _logged(table, columns["next_observations"])
        common = np.result_type(arrays["observations"], following[known] if known.any() else np.float32)
        arrays["observations"] = arrays["observations"].astype(common)
        following = np.where(known.reshape(-1, *[1] * (following.ndim - 1)), following, 0).astype(common)
    if known is not None and not known.any():  # a column that nobody filled: as if it were not there
        following = known = None
    _add_flags(source, table, columns, arrays)
    metadata = (table.schema.metadata or {}).get(b"ploff")
    origin, action_space = read_description(source, metadata.decode()) if metadata else (Origin(name=path.stem), None)
    used = {name for names in columns.values() for name in names}
    others = [field.name for field in table.schema if field.name not in used and _is_numeric(field.type)]
    rows = Rows(
        source=source,
        arrays=arrays,
        next_observations=following,
        known=known,
        infos={name: _values(source, table, [name]) for name in others} if options.infos else {},
        origin=origin,
        action_space=action_space,
    )
    return assemble(rows, options)


def _open(path: pathlib.Path) -> pa.Table:
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix.lower() == ".csv":
            check_text(path)
            return pyarrow.csv.read_csv(path)
        check_parquet(path)
        return pyarrow.parquet.read_table(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None


def column_names(path: pathlib.Path, options: Options) -> dict[str, list[str]]:
    """The columns of a file that each field is made of; a column of lists has one name for all of its numbers."""
    return find_columns(str(path), _open(path).column_names, options)


def find_columns(source: str, present: Sequence[str], options: Options) -> dict[str, list[str]]:
    """The columns of every field that the table has: the user's choice, else by convention."""
    unknown = sorted(set(options.columns) - set(CONVENTIONS))
    if unknown:
        raise DataError(f"no field is called {unknown[0]!r}; fields are {', '.join(CONVENTIONS)}")
    found = {}
    for field, conventions in CONVENTIONS.items():
        chosen = list(options.columns.get(field, ()))
        validate.check_present(source, chosen, present)
        names = chosen or _by_convention(field, conventions, present)
        if names:
            found[field] = names
            validate.check_columns(source, present, names)
        if not chosen:
            validate.check_numbering(source, names)
    return found


def _by_convention(field: str, conventions: Sequence[str], present: Sequence[str]) -> list[str]:
    lower = {name.lower(): name for name in present}
    for convention in conventions:
        if convention in lower:
            return [lower[convention]]
        numbered = [name for name in lower if name.startswith(f"{convention}_")]
        if field in VECTORS and numbered:
            tails = {name: name.removeprefix(f"{convention}_") for name in numbered}
            if any(tail.isdigit() for tail in tails.values()):
                # action_logprob beside action_0 speaks of the action, but is no part of it
                numbered = sorted((n for n in numbered if tails[n].isdigit()), key=lambda name: int(tails[name]))
            return [lower[name] for name in numbered]
    return []


def _values(source: str, table: pa.Table, names: Sequence[str], *, gaps: bool = False) -> np.ndarray:
    """One column as it is, several side by side; a list that is missing is zeros, where there may be `gaps`."""
    columns = [_column(source, table, name, gaps) for name in names]
    if len(columns) == 1:
        return columns[0]
    return np.stack(columns, axis=1)


def _column(source: str, table: pa.Table, name: str, gaps: bool) -> np.ndarray:
    column = table.column(name).combine_chunks()
    if _is_list(column.type):
        lengths = {len(entry) for entry in column if entry.is_valid}
        if len(lengths) > 1 or (column.null_count and not gaps):
            raise DataError(f"{source}: the lists in column {name!r} differ in length, or some are missing")
        there, width = ~np.asarray(column.is_null()), max(lengths, default=0)
        logged = np.asarray(column.flatten())  # without those that are missing
        values = np.zeros((len(column), width), logged.dtype)
        values[there] = logged.reshape(int(there.sum()), width)
        return values
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        what = "gaps" if pa.types.is_boolean(column.type) else f"{column.type} where numbers are expected"
        raise DataError(f"{source}: column {name!r} holds {what}")
    return values


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def _logged(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Rows in which not all of these columns are empty."""
    return ~np.all([np.asarray(table.column(name).is_null()) for name in names], axis=0)


def _add_flags(source: str, table: pa.Table, columns: dict[str, list[str]], arrays: dict[str, np.ndarray]) -> None:
    """Fills in the flags that an episode column implies."""
    count = len(table)
    if "terminals" not in arrays:
        if not {"timeouts", "episodes"} & set(columns):
            raise DataError(
                f"{source} has neither a terminal, a timeout nor an episode column; "
                "name one by --columns terminals=NAME"
            )
        validate.warn(f"{source} has no terminal column: every episode counts as cut, none as ended")
        arrays["terminals"] = np.zeros(count, bool)
    if "episodes" not in columns or not count:
        return
    if table.column(columns["episodes"][0]).null_count:
        raise DataError(f"{source}: column {columns['episodes'][0]!r} has gaps: every row belongs to an episode")
    ids = table.column(columns["episodes"][0]).to_numpy()
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise DataError(f"{source}: column {columns['episodes'][0]!r} holds NaN: every row belongs to an episode")
    changes = np.ones(count, bool)
    changes[:-1] = ids[1:] != ids[:-1]
    if len(set(ids[changes].tolist())) < changes.sum():
        raise DataError(f"{source}: the rows of an episode are not together; sort by {columns['episodes'][0]!r}")
    terminals = validate.as_flags(source, "terminals", arrays["terminals"])
    if "timeouts" in arrays:  # the table marks its cuts itself: its last row may well be unmarked
        changes[-1] = False
        arrays["timeouts"] = validate.as_flags(source, "timeouts", arrays["timeouts"]) | (changes & ~terminals)
    else:
        arrays["timeouts"] = changes & ~terminals


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
