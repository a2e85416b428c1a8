"""The options by which a command is told how to read a file."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import tyro

from ploff.commands import Unset


@dataclasses.dataclass(kw_only=True)
class Reading:
    """What a file may leave open."""

    horizon: Unset[int] = None
    """Steps after which an episode was cut, where the file does not mark it."""
    action_low: Unset[tuple[float, ...]] = None
    """Lower bounds of the actions, one for all dimensions or one for each."""
    action_high: Unset[tuple[float, ...]] = None
    """Upper bounds of the actions."""
    choices: Unset[int] = None
    """Number of actions, where they are discrete."""
    columns: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Columns of a table, as in observations=speed,angle actions=force. observations=* takes all that are left;
    episodes=@file makes an episode of each file."""
    reward: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Columns that sum to the reward, with their weights, as in throughput=1 energy=-0.1."""
    ignore: tuple[str, ...] = ()
    """Columns that are left out."""
    categorical: tuple[str, ...] = ()
    """Columns whose numbers are names, not amounts."""
    missing: Unset[Literal["refuse", "hold", "mean+flag"]] = None
    """Missing values in observations: refused, replaced by the episode's last, or by the mean with a flag beside it."""
    gap: Unset[str] = None
    """An episode ends where the next row comes later than this, as in 10min."""
    delimiter: Unset[str] = None
    """Character between the columns of a text file, or tab."""
    decimal: Unset[str] = None
    """Character between whole and fraction in a text file."""
    table: Unset[pathlib.Path] = None
    """File that says all of these (TOML), as `ploff data show --write` writes it; options beside it count more."""

    def options(self, more: Sequence[str] = ()) -> dict[str, Any]:
        """Keywords for `ploff.datasets.load`.

        Args:
          more: files behind the first.
        """
        given = {name: getattr(self, name) for name in PLAIN if getattr(self, name) not in (None, ())}
        columns = {field: names.split(",") for field, names in _assignments("--columns", self.columns).items()}
        reward = {column: _weight(column, text) for column, text in _assignments("--reward", self.reward).items()}
        given |= {name: value for name, value in (("columns", columns), ("reward", reward)) if value}
        if more:
            given["more"] = [os.path.abspath(name) for name in more]
        if self.table is None:
            return given
        said = _read_table_file(self.table)
        return {**said, **given, "columns": {**said.get("columns", {}), **columns}}


def first_of(names: Sequence[str]) -> str:
    """The first of the datasets that were named; an error where none was."""
    from ploff.utils.errors import PloffError

    if not names:
        raise PloffError("no dataset is named; give a file, or a name that `ploff data list` shows")
    return names[0]


PLAIN = (
    "horizon", "action_low", "action_high", "choices", "ignore", "categorical", "missing", "gap", "delimiter",
    "decimal",
)  # fmt: skip


def _assignments(option: str, given: Iterable[Iterable[str]]) -> dict[str, str]:
    """{name: text} of NAME=TEXT."""
    from ploff.utils.errors import DataError

    read = {}
    for text in itertools.chain(*given):
        name, equals, value = text.rpartition("=") if option == "--reward" else text.partition("=")
        if not equals:
            what = "FIELD=NAME,NAME…" if option == "--columns" else "COLUMN=WEIGHT"
            raise DataError(f"{option} takes {what}, got {text!r}")
        read[name] = value
    return read


def _weight(column: str, text: str) -> float:
    from ploff.utils.errors import DataError

    try:
        return float(text)
    except ValueError:
        raise DataError(f"--reward {column}={text}: a weight is a number, as in {column}=-0.1") from None


def _read_table_file(path: pathlib.Path) -> dict[str, Any]:
    import tomllib

    from ploff.datasets import validate
    from ploff.utils.errors import DataError

    validate.check_file(path)
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as TOML: {error}") from None
