"""What the columns of somebody's table may be: looked at, proposed, and never taken for granted.

`ploff data show` prints the proposal with the command that accepts it; nothing of this is used in training.
"""

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ploff.datasets.columns import CONVENTIONS, FILE, OTHERS, TableOptions, find_columns
from ploff.datasets.reading import command_options, to_toml
from ploff.datasets.table import categories_of
from ploff.datasets.table_files import (
    TableFiles,
    check_same_columns,
    delimiter_of,
    find_table_files,
    format_by_name,
    is_collection,
    read_files,
)
from ploff.schema import is_list, is_number, is_text, is_time
from ploff.utils.arrow import compute as pc
from ploff.utils.errors import DataError

WORDS = {  # of names that a field often goes by, beside its conventions
    "episodes": ("run", "batch", "trip", "session", "trial", "patient", "stay", "cycle", "rollout"),
    "time": ("time", "timestamp", "datetime", "date", "ts", "step", "tick"),
    "actions": (
        "action", "act", "control", "command", "cmd", "setpoint", "valve", "torque", "throttle", "dose", "choice",
        "decision", "treatment", "voltage",
    ),
    "rewards": ("reward", "profit", "revenue", "score", "gain", "click", "cost", "costs", "loss", "penalty"),
    "terminals": ("end", "ended", "failed", "failure", "final"),
    "timeouts": ("cut",),
}  # fmt: skip
COSTS = ("cost", "costs", "loss", "penalty")
CATEGORY_WORDS = ("mode", "kind", "type", "class", "code", "category", "shift", "id")
MOST_CHOICES = 32  # whole numbers that are choices rather than amounts
LONG_GAP = 10.0  # of the usual step in time
SHORT_LIST = 8  # columns that the command names one by one


@dataclasses.dataclass(frozen=True)
class ColumnCard:
    """What a column holds, and what it is proposed to be."""

    name: str
    type: str
    range: str
    missing: float  # share of the rows
    constant: bool
    role: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Proposal:
    """The columns of a table, and the keywords of `ploff.load` that read them so."""

    names: tuple[str, ...]  # files, globs, folders, as they were given
    rows: int
    cards: tuple[ColumnCard, ...]
    reading: dict[str, Any]
    open: tuple[str, ...] = ()  # what a person must still say

    def command(self, out: str = "run") -> str:
        """The command that accepts the proposal."""
        return shlex.join(["ploff", "train", *self.names, "--out", out, *command_options(self.reading)])

    def toml(self) -> str:
        """The same as a file for `--table`."""
        return to_toml(self.reading)


def propose(
    names: Sequence[str], columns: Mapping[str, Sequence[str]], options: TableOptions, given: Mapping[str, Any]
) -> Proposal:
    """Looks at every column of a table and proposes what it is.

    Args:
      names: files, globs or folders.
      columns: what a person has named already; it stands.
      options: what else was said of the table; it stands, too.
      given: further keywords of `ploff.load` that were given, to be repeated in the command.
    """
    paths = find_table_files(names)
    format, options = format_by_name(paths[0]) or "parquet", _with_dialect(paths[0], options)
    present = check_same_columns(paths, format, options.delimiter, options.ignore)
    files = read_files(str(names[0]), paths, format, present, options.delimiter, options.decimal)
    if not len(files.table):
        raise DataError(f"{names[0]} holds no transitions")
    looked = _Looked(files, columns, options)
    return Proposal(tuple(names), len(files.table), looked.cards(), {**looked.reading(), **given}, tuple(looked.open))


def is_table(names: Sequence[str]) -> bool:
    """Whether names stand for tables, and not for datasets of other formats."""
    first = pathlib.Path(names[0])
    return is_collection(first) or (first.is_file() and format_by_name(first) is not None)


def _with_dialect(path: pathlib.Path, options: TableOptions) -> TableOptions:
    """The delimiter that divides the header best, and a decimal comma where its first rows have some."""
    if format_by_name(path) != "csv" or options.delimiter is not None:
        return options
    with pa.input_stream(str(path)) as stream:
        lines = stream.read(1 << 16).decode("utf-8", "replace").splitlines()[:50]
    usual = delimiter_of(path, None)
    best = max((usual, ",", ";", "\t", "|"), key=lambda one: lines[0].count(one) if lines else 0)
    comma = best != "," and any(
        part.count(",") == 1 and part.replace(",", "").strip().lstrip("-").isdigit()
        for line in lines[1:]
        for part in line.split(best)
    )
    return dataclasses.replace(
        options, delimiter=None if best == usual else best, decimal="," if comma else options.decimal
    )


class _Looked:
    """Takes columns one field after another; what nothing takes is an observation, or left out with a reason."""

    def __init__(self, files: TableFiles, columns: Mapping[str, Sequence[str]], options: TableOptions):
        self.files, self.table, self.options = files, files.table, options
        self.names = self.table.column_names
        self.chosen = {field: list(names) for field, names in columns.items()}
        self.open: list[str] = []
        self.reward = dict(options.reward)
        self.ignored = dict.fromkeys(options.ignore, "as you say")
        self.constants = {name for name in self.names if self._is_constant(name)}
        self.found = find_columns(files.source, self.names, self.chosen, options)
        if self.found.get("observations") == [OTHERS]:
            del self.found["observations"]
        for field in ("episodes", "time", "terminals", "timeouts", "actions", "rewards"):
            self._take(field)
        self.gap = options.gap or self._gap()
        self._tell_episodes_apart()
        self._take_observations()
        self.categorical = [*options.categorical, *(n for n in self.found["observations"] if self._names_a_category(n))]
        gaps = any(self.table.column(name).null_count for name in self.found["observations"])
        self.missing = options.missing if options.missing != "refuse" or not gaps else "hold"

    def reading(self) -> dict[str, Any]:
        """Keywords of `ploff.load`."""
        columns = {k: v for k, v in self.found.items() if v and not (k == "rewards" and self.reward)}
        rest = [name for name in self.names if name in self.ignored]
        if len(self.found["observations"]) > SHORT_LIST:
            columns["observations"] = [OTHERS]
        said: dict[str, Any] = {"columns": columns, "reward": self.reward}
        if columns["observations"] == [OTHERS] or self.options.ignore:
            said["ignore"] = rest
        said |= {"categorical": list(dict.fromkeys(self.categorical)), "gap": self.gap}
        said["missing"] = self.missing if self.missing != "refuse" else None
        said["delimiter"], decimal = self.options.delimiter, self.options.decimal
        said["decimal"] = decimal if decimal != "." else None
        if not ({"episodes", "terminals", "timeouts"} & set(columns)) and self.gap is None:
            said["horizon"] = len(self.table)
        said |= self._action_space()
        if more := tuple(self.options.more):
            said["more"] = more
        return {name: value for name, value in said.items() if value not in (None, [], {})}

    def cards(self) -> tuple[ColumnCard, ...]:
        """One card per column."""
        roles = {name: field for field, names in self.found.items() for name in names if name != FILE}
        roles |= {name: f"reward × {weight:g}" for name, weight in self.reward.items()}
        return tuple(self._card(name, roles.get(name, "ignored")) for name in self.names)

    def _card(self, name: str, role: str) -> ColumnCard:
        column = self.table.column(name)
        notes = [self.ignored[name]] if role == "ignored" and name in self.ignored else []
        if name in self.categorical or (role == "observations" and is_text(column.type)):
            notes.append(f"a category of {len(categories_of(column))}")
        kind = "text" if is_text(column.type) else str(column.type)
        share = column.null_count / len(column)
        return ColumnCard(name, kind, _range(column), share, name in self.constants, role, ", ".join(notes))

    # One field after another.

    def _take(self, field: str) -> None:
        """A column for a field, where neither the user nor a convention has named one."""
        if field in self.found:
            return
        taken = {name for names in self.found.values() for name in names} | set(self.ignored)
        candidates = [name for name in self.names if name not in taken and self._may_be(field, name)]
        chosen = candidates if field == "actions" else candidates[:1]
        if chosen:
            self.found[field] = chosen
        if field == "time" and len(candidates) > 1:
            self.ignored |= dict.fromkeys(candidates[1:], "a second time column")
        if field == "rewards" and chosen and set(_words(chosen[0])) & set(COSTS):
            del self.found["rewards"]
            self.found["rewards"], self.reward = chosen, {chosen[0]: -1.0}
        if field in ("actions", "rewards") and not chosen:
            self.found[field] = [f"{field.upper().rstrip('S')}_COLUMN"]
            self.open.append(f"which column is the {field.rstrip('s')}? put its name for {self.found[field][0]}")

    def _may_be(self, field: str, name: str) -> bool:
        column, words = self.table.column(name), _words(name)
        numeric = is_number(column.type) or pa.types.is_boolean(column.type)
        named = bool(set(words) & {*WORDS[field], *CONVENTIONS[field]})
        if field == "time":
            return is_time(column.type) or (named and numeric and not is_text(column.type) and self._rises(name))
        if field == "episodes":
            return (named or words[-1:] == ["id"]) and not column.null_count and self._comes_in_blocks(name)
        if field in ("terminals", "timeouts"):
            return named and not column.null_count and self._is_flag(name)
        if field == "actions":
            return named and not is_time(column.type) and not is_list(column.type) and not column.null_count
        return named and numeric and not column.null_count

    def _take_observations(self) -> None:
        """What is left, but for constants, text that is different in every row, and what holds nothing."""
        if "observations" in self.found:
            return
        taken = {name for names in self.found.values() for name in names} | set(self.reward)
        for name in [name for name in self.names if name not in taken and name not in self.ignored]:
            column = self.table.column(name)
            if column.null_count == len(column):
                self.ignored[name] = "holds nothing"
            elif name in self.constants:
                self.ignored[name] = "never changes"
            elif is_time(column.type):
                self.ignored[name] = "a time"
            elif is_text(column.type) and 2 * len(categories_of(column)) > len(column):
                self.ignored[name] = "text that hardly repeats"
        self.found["observations"] = [n for n in self.names if n not in taken and n not in self.ignored]
        if not self.found["observations"]:
            self.found["observations"] = ["OBSERVATION_COLUMNS"]
            self.open.append("which columns are the observation? put their names for OBSERVATION_COLUMNS")

    def _tell_episodes_apart(self) -> None:
        """By files, where nothing else does and there are several."""
        told = {"episodes", "terminals", "timeouts"} & set(self.found) or self.gap is not None
        if not told and len(self.files.paths) > 1:
            self.found["episodes"] = [FILE]

    def _gap(self) -> str | None:
        """A gap in time that is much longer than the usual step, where no column tells episodes apart."""
        if "time" not in self.found or "episodes" in self.found:
            return None
        column = self.table.column(self.found["time"][0])
        if not is_time(column.type):
            return None
        times = column.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() / 1e6
        steps = np.diff(times)
        usual = float(np.median(steps)) if len(steps) else 0.0
        return f"{LONG_GAP * usual:g}s" if usual > 0 and steps.max() > LONG_GAP * usual else None

    def _action_space(self) -> dict[str, Any]:
        """Bounds or the number of choices, as the data has them."""
        names = [name for name in self.found["actions"] if name in self.names]
        if not names or len(names) < len(self.found["actions"]):
            return {}
        columns = [self.table.column(name) for name in names]
        if len(names) == 1 and (is_text(columns[0].type) or pa.types.is_boolean(columns[0].type)):
            return {"choices": len(categories_of(columns[0]))}
        if not all(is_number(column.type) for column in columns):
            return {}
        low, high = ([float(edge(column).as_py()) for column in columns] for edge in (pc.min, pc.max))
        if len(names) == 1 and pa.types.is_integer(columns[0].type) and low[0] >= 0 and high[0] < MOST_CHOICES:
            return {"choices": int(high[0]) + 1}
        return {"action_low": low, "action_high": high}

    # What a column holds.

    def _is_constant(self, name: str) -> bool:
        column = self.table.column(name)
        return not is_list(column.type) and len(pc.unique(column.drop_null())) <= 1

    def _rises(self, name: str) -> bool:
        """Whether numbers mostly grow: a time, within episodes."""
        column = self.table.column(name)
        if column.null_count or len(column) < 2:
            return False
        return bool(np.mean(np.diff(column.to_numpy()) > 0) > 0.5)

    def _is_flag(self, name: str) -> bool:
        values = pc.unique(self.table.column(name)).to_pylist()
        return set(values) <= {0, 1}

    def _comes_in_blocks(self, name: str) -> bool:
        """Whether equal values stand together, several rows of each."""
        column = self.table.column(name)
        if is_list(column.type) or pa.types.is_floating(column.type):
            return False
        index = pc.dictionary_encode(column.combine_chunks()).indices.to_numpy()
        blocks = 1 + int(np.sum(index[1:] != index[:-1]))
        return blocks == int(index.max()) + 1 and 2 * blocks <= len(index)

    def _names_a_category(self, name: str) -> bool:
        """Whether a column of whole numbers is called like a category."""
        if name not in self.names or name in self.options.categorical:
            return False
        column = self.table.column(name)
        return pa.types.is_integer(column.type) and bool(set(_words(name)) & set(CATEGORY_WORDS))


def _words(name: str) -> list[str]:
    """The words that a column's name is made of."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def _range(column: pa.ChunkedArray) -> str:
    """The least and the greatest value, or the first few words."""
    if is_list(column.type):
        return f"lists of {pc.max(pc.list_value_length(column)).as_py()}"
    if column.null_count == len(column):
        return "nothing"
    if is_text(column.type):
        words = categories_of(column)
        return ", ".join(words[:3]) + (f", … ({len(words)})" if len(words) > 3 else "")
    edges = (pc.min(column).as_py(), pc.max(column).as_py())
    return " … ".join(f"{edge:.4g}" if isinstance(edge, float) else str(edge) for edge in edges)
