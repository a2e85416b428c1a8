"""The files of a table: one, several, a glob or a folder; Parquet, or delimited text, which may be compressed.

Files are read in the order of their names, numbers in these counted as numbers, and laid one behind another. Folders
named KEY=VALUE become columns.
"""

import csv
import dataclasses
import glob
import io
import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ploff.datasets import validate
from ploff.datasets.limits import PACKED_SUFFIXES, check_parquet, check_text
from ploff.schema import is_text, not_a_number
from ploff.utils.errors import DataError

TEXT_SUFFIXES = (".csv", ".tsv")
RESULTS = "suite.json"  # a folder with this holds results of training, and tables of these


@dataclasses.dataclass(frozen=True)
class TableFiles:
    """The rows of several files as one table, and which rows are whose."""

    source: str  # how messages call the whole
    table: pa.Table
    paths: tuple[pathlib.Path, ...]
    starts: np.ndarray  # the first row of each file

    def place(self, row: int) -> str:
        """How messages call a row: counted from 0, in its own file where there are several."""
        file = int(np.searchsorted(self.starts, row, side="right")) - 1
        where = f" of {self.paths[file].name}" if len(self.paths) > 1 else ""
        return f"row {row - int(self.starts[file])}{where}"


def format_by_name(path: pathlib.Path) -> str | None:
    """Whether a path is named like a table: "parquet", "csv" (of any delimiter), or neither."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED_SUFFIXES:
        return "csv" if len(suffixes) > 1 and suffixes[-2] in TEXT_SUFFIXES else None
    if suffixes and suffixes[-1] in TEXT_SUFFIXES:
        return "csv"
    return "parquet" if suffixes and suffixes[-1] == ".parquet" else None


def is_collection(path: pathlib.Path) -> bool:
    """Whether a path stands for several tables: a glob, or a folder that holds some."""
    if path.is_dir():
        return not (path / RESULTS).exists() and any(format_by_name(file) for file in path.rglob("*.*"))
    return not path.exists() and glob.has_magic(str(path)) and bool(glob.glob(str(path), recursive=True))


def find_table_files(names: Sequence[str | os.PathLike[str]]) -> tuple[pathlib.Path, ...]:
    """The files that names, globs and folders stand for, of one format."""
    found: list[pathlib.Path] = []
    for path in map(pathlib.Path, names):
        if path.is_dir():
            inside = [file for file in path.rglob("*.*") if format_by_name(file) and file.is_file()]
        elif not path.exists() and glob.has_magic(str(path)):
            inside = [pathlib.Path(match) for match in glob.glob(str(path), recursive=True)]
        else:
            inside = [path]
        if not inside:
            raise DataError(f"{path} holds no table: no .parquet, .csv or .tsv, nor such a one with .gz or .zst")
        found += sorted(inside, key=lambda file: _natural(str(file)))
    formats = {format_by_name(file) for file in found}
    if len(formats) > 1:
        raise DataError(f"{', '.join(map(str, names))}: files of several formats; name those of one")
    return tuple(dict.fromkeys(found))


def read_header(path: pathlib.Path, format: str, delimiter: str | None) -> list[str]:
    """The names of a file's columns."""
    validate.check_file(path)
    if format == "parquet":
        import pyarrow.parquet

        try:
            check_parquet(path)
            return _with_keys(path, pyarrow.parquet.read_schema(path).names)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path} cannot be read as a table: {error}") from None
    try:
        check_text(path)
        stream = io.TextIOWrapper(pa.input_stream(str(path)), encoding="utf-8-sig", newline="")
        names = next(csv.reader(stream, delimiter=delimiter_of(path, delimiter)), [])
    except UnicodeDecodeError as error:
        raise DataError(f"{path} cannot be read as a table: {error}; write it as UTF-8") from None
    except (pa.ArrowException, OSError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None
    other = next((one for one in (";", "\t", "|", ",") if len(names) == 1 and one in names[0]), None)
    if other is not None:
        shown = "tab" if other == "\t" else other
        raise DataError(f"{path}: its header is one column, {names[0][:40]!r}; give --delimiter '{shown}'")
    return _with_keys(path, names)


def _with_keys(path: pathlib.Path, names: Sequence[str]) -> list[str]:
    """A file's own columns, each there once, and those that its folders are named after, which come first."""
    validate.check_columns(str(path), names, [name for name in names if names.count(name) > 1])
    keys = _keys(path)
    return [*(name for name in names if name not in keys), *keys]


def check_same_columns(
    paths: Sequence[pathlib.Path], format: str, delimiter: str | None, ignore: Sequence[str]
) -> list[str]:
    """The columns of the first file, which the others must have too, and no more."""
    names = read_header(paths[0], format, delimiter)
    first = set(names) - set(ignore)
    for path in paths[1:]:
        own = set(read_header(path, format, delimiter)) - set(ignore)
        if own != first:
            lacks, has = sorted(first - own), sorted(own - first)
            what = f"it lacks {', '.join(map(repr, lacks))}" if lacks else f"it has {', '.join(map(repr, has))}, too"
            remedy = "leave that file out" if lacks else f"--ignore {' '.join(has)} leaves that out"
            raise DataError(f"{path} differs from {paths[0]}: {what}; {remedy}")
    return names


def read_files(
    source: str,
    paths: Sequence[pathlib.Path],
    format: str,
    columns: Sequence[str],
    delimiter: str | None = None,
    decimal: str = ".",
) -> TableFiles:
    """Reads some columns of all files."""
    tables = [_read_file(path, format, columns, delimiter, decimal) for path in paths]
    lengths = [len(table) for table in tables]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    for name in columns:
        _check_same_kind(name, tables, paths)
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    return TableFiles(source, whole, tuple(paths), starts)


def _read_file(
    path: pathlib.Path, format: str, columns: Sequence[str], delimiter: str | None, decimal: str
) -> pa.Table:
    import pyarrow.csv
    import pyarrow.parquet

    keys = _keys(path)
    wanted = [name for name in columns if name not in keys]
    try:
        if format == "parquet":
            table = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True).read(columns=wanted)
        else:
            table = pyarrow.csv.read_csv(
                path,
                parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter_of(path, delimiter)),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=wanted, decimal_point=decimal, strings_can_be_null=True
                ),
            )
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None
    for key, value in keys.items():
        if key in columns:
            column = pa.array([int(value) if re.fullmatch(r"-?\d+", value) else value])
            table = table.append_column(key, pa.chunked_array([column.take(pa.array(np.zeros(len(table), np.int64)))]))
    return table


def _check_same_kind(name: str, tables: Sequence[pa.Table], paths: Sequence[pathlib.Path]) -> None:
    """Text in a column that holds numbers in another file is the fault of the text."""
    kinds = [table.column(name).type for table in tables]
    texts = [i for i, kind in enumerate(kinds) if is_text(kind)]
    others = [i for i, kind in enumerate(kinds) if not is_text(kind) and not pa.types.is_null(kind)]
    if texts and others:
        what = not_a_number(tables[texts[0]].column(name), name, lambda row: f"row {row}")
        raise DataError(f"{paths[texts[0]]} differs from {paths[others[0]]}: {what}")


def delimiter_of(path: pathlib.Path, delimiter: str | None) -> str:
    """What separates a text file's columns: as it is said, else by the file's name."""
    if delimiter is None:
        return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","
    delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1:
        raise DataError(f"--delimiter is one character, or tab; got {delimiter!r}")
    return delimiter


def _keys(path: pathlib.Path) -> dict[str, str]:
    """Columns that the folders of a file are named after: KEY=VALUE."""
    parts = [re.fullmatch(r"([A-Za-z_]\w*)=(.+)", part) for part in path.parts[:-1]]
    return {match[1]: match[2] for match in parts if match}


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts run-2 before run-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text) if part]
