"""What a table's file declares, held against memory before it is read."""

import pathlib

from ploff.datasets.validate import refuse_larger
from ploff.utils.errors import DataError

BYTES_PER_VALUE = 8  # where a file does not say how wide its values are in memory
BEGINNING = 4096  # bytes that are looked at to tell an encoding
BLOCK_BYTES = 1 << 22  # unpacked at once
PACKED_SUFFIXES = (".gz", ".zst", ".bz2")
MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}  # that editors begin a text with


def check_parquet(path: pathlib.Path) -> None:
    """Refuses a Parquet file whose columns would not fit into memory.

    A value that is repeated a billion times takes some bytes in a file: rows count, and sizes before compression.
    Single columns are not asked for theirs: where one's statistics are damaged, Arrow ends the process.
    """
    import pyarrow.parquet

    found = pyarrow.parquet.read_metadata(path)
    groups = map(found.row_group, range(found.num_row_groups))
    values = BYTES_PER_VALUE * found.num_columns
    refuse_larger(str(path), sum(max(group.total_byte_size, values * group.num_rows) for group in groups))


def check_text(path: pathlib.Path) -> None:
    """Refuses a text that is not UTF-8 by its first bytes, or that would not fit into memory.

    A compressed one is unpacked once to see how long it is: few bytes may stand for any number.
    """
    import pyarrow

    with pyarrow.input_stream(str(path)) as file:  # which unpacks by the file's name
        beginning, size = file.read(BEGINNING), path.stat().st_size
        if path.suffix.lower() in PACKED_SUFFIXES:
            size = len(beginning)
            while block := file.read(BLOCK_BYTES):
                size += len(block)
                refuse_larger(str(path), size)
    encoding = MARKS.get(beginning[:2]) or ("UTF-16" if b"\0" in beginning else None)
    if encoding:
        raise DataError(f"{path} is {encoding}; save it as UTF-8")
    refuse_larger(str(path), size)
