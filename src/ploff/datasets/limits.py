"""What a table's file declares, held against memory before it is read."""

import pathlib
from collections.abc import Sequence

from ploff.datasets.validate import refuse_larger
from ploff.utils.errors import DataError

BYTES_PER_VALUE = 8  # where a file does not say how wide its values are in memory
MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}  # that editors begin a text with


def check_parquet(path: pathlib.Path, columns: Sequence[str] | None = None) -> None:
    """Refuses a Parquet file whose columns, all or those named, would not fit into memory.

    A value that is repeated a billion times takes some bytes in a file: rows count, and sizes before compression.
    """
    import pyarrow.parquet

    found = pyarrow.parquet.read_metadata(path)
    sizes = 0
    for group in map(found.row_group, range(found.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if columns is None or column.path_in_schema.split(".")[0] in columns:
                sizes += max(column.total_uncompressed_size, BYTES_PER_VALUE * column.num_values)
    refuse_larger(str(path), sizes)


def check_text(path: pathlib.Path) -> None:
    """Refuses a text that is not UTF-8 by its first bytes, or that would not fit into memory."""
    with open(path, "rb") as file:
        beginning = file.read(4096)
    encoding = MARKS.get(beginning[:2]) or ("UTF-16" if b"\0" in beginning else None)
    if encoding:
        raise DataError(f"{path} is {encoding}; save it as UTF-8")
    refuse_larger(str(path), path.stat().st_size)
