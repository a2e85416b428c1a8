"""HDF5 arrays, read on every core, from inside of their file, and as they were written.

The HDF5 library inflates one chunk at a time, under one lock. Where chunks are plainly gzipped, it is only asked
where they lie; zlib inflates them, which lets other threads run meanwhile. Anything else is left to h5py.

What leads out of a file, was never written, or would not fit into memory is refused before it is read.
"""

import itertools
import math
import pathlib
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
from h5py import h5o  # pyright: ignore[reportAttributeAccessIssue] - compiled, without types

from ploff.datasets.validate import refuse_larger
from ploff.utils.cores import available_cores
from ploff.utils.errors import DataError

BLOCK_ROWS = 131_072  # rows in memory at a time, at least, when an array is only looked through
SLACK = 64  # bytes by which a filter's own notes lengthen a chunk


def open_file(path: pathlib.Path) -> h5py.File:
    """Opens a file for reading, or says in what way it is broken."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        cut = re.search(r"truncated file: eof = (\d+).*stored_eof = (\d+)", str(error))
        if cut:
            raise DataError(
                f"{path} is truncated: {int(cut[1]):,} of {int(cut[2]):,} bytes; download or copy it again"
            ) from None
        raise DataError(f"{path} cannot be opened as HDF5: {error}") from None


def datasets_in(group: h5py.Group, names: list[str] | None = None) -> dict[str, h5py.Dataset]:
    """The arrays of a group and of those below it, by their paths; what leads out of the file is refused.

    Args:
      group: where to look.
      names: only these of the group's own, as far as there are such; all of them, and those below, by default.
    """
    found: dict[str, h5py.Dataset] = {}
    _collect(group, "", names, found, set())
    return found


def _collect(
    group: h5py.Group, prefix: str, names: list[str] | None, found: dict[str, h5py.Dataset], seen: set[int]
) -> None:
    for name in list(group) if names is None else [name for name in names if name in group]:
        if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
            raise DataError(
                f"{group.file.filename}: {prefix}{name} is a link to another file; put the data itself there"
            )
        item = group[name]
        if item.file.filename != group.file.filename:
            raise DataError(f"{group.file.filename}: {prefix}{name} leads to another file; put the data itself there")
        place = h5o.get_info(item.id).addr
        if isinstance(item, h5py.Dataset):
            found[f"{prefix}{name}"] = item
        elif isinstance(item, h5py.Group) and names is None and place not in seen:  # links may go round
            _collect(item, f"{prefix}{name}/", None, found, seen | {place})


def check_dataset(dataset: h5py.Dataset) -> None:
    """Refuses an array that is not all in its file, or that takes more memory than there is."""
    source = f"{dataset.file.filename}: {str(dataset.name).lstrip('/')}"
    if dataset.is_virtual or dataset.external:
        raise DataError(f"{source} is put together from other files; write the data itself (h5repack does)")
    if dataset.shape is None:
        raise DataError(f"{source} is empty")
    refuse_larger(source, dataset.dtype.itemsize * math.prod(dataset.shape))
    if not math.prod(dataset.shape):
        return
    if dataset.chunks is None:
        if dataset.id.get_storage_size() < dataset.dtype.itemsize * math.prod(dataset.shape):
            raise DataError(f"{source} was declared and never written; was its recording cut short?")
        return
    refuse_larger(source, len(available_cores()) * _chunk_bytes(dataset))
    missing = _grid(dataset) - dataset.id.get_num_chunks()
    if missing:
        raise DataError(
            f"{source}: {missing:,} of {_grid(dataset):,} chunks were never written; was its recording cut?"
        )
    if dataset.compression == "gzip" and not _is_plain(dataset):
        _refuse_bombs(dataset, source)


class StoredRows:
    """An array in a file: all of it by `read`, or a block of rows at a time by iteration."""

    def __init__(self, dataset: h5py.Dataset):
        check_dataset(dataset)
        self._dataset = dataset
        self.shape: tuple[int, ...] = dataset.shape
        self.dtype = dataset.dtype.newbyteorder("=")
        self._chunk: tuple[int, ...] = dataset.chunks or (1, *dataset.shape[1:])
        self._packed = _packed_chunks(dataset)

    @property
    def nbytes(self) -> int:
        """What all of it takes in memory."""
        return self.dtype.itemsize * math.prod(self.shape)

    def read(self) -> np.ndarray:
        """The whole array, in the machine's own byte order."""
        return self._read(0, self.shape[0]) if self.shape else self._dataset[()]

    def __iter__(self) -> Iterator[np.ndarray]:
        step = -(-BLOCK_ROWS // self._chunk[0]) * self._chunk[0]
        for start in range(0, self.shape[0], step):
            yield self._read(start, min(start + step, self.shape[0]))

    def _read(self, start: int, stop: int) -> np.ndarray:
        """Rows from `start`, which a chunk begins at."""
        rows = np.empty((stop - start, *self.shape[1:]), self.dtype)
        try:
            if self._packed:
                self._inflate(rows, start, stop)
            elif rows.size:
                rows[...] = self._dataset[start:stop]
        except (OSError, zlib.error, ValueError, LookupError) as error:
            name = f"{self._dataset.file.filename}: {str(self._dataset.name).lstrip('/')}"
            raise DataError(f"{name} is damaged near row {start} ({error}); download or copy it again") from None
        return rows

    def _inflate(self, rows: np.ndarray, start: int, stop: int) -> None:
        file = np.memmap(self._dataset.file.filename, np.uint8, "r")
        bands = range(start, stop, self._chunk[0])
        with ThreadPoolExecutor(len(available_cores())) as pool:
            for _ in pool.map(lambda top: self._inflate_band(file, rows[top - start :], top), bands):
                pass

    def _inflate_band(self, file: np.ndarray, rows: np.ndarray, top: int) -> None:
        """The chunks side by side that begin at row `top`, which becomes the first of `rows`."""
        kind, shuffled = self._dataset.dtype, self._dataset.shuffle
        steps = (range(0, size, n) for size, n in zip(self.shape[1:], self._chunk[1:], strict=True))
        for corner in itertools.product((top,), *steps):
            offset, size = self._packed[corner]
            content = _inflated(file[offset : offset + size], _chunk_bytes(self._dataset))
            if shuffled:
                content = np.ascontiguousarray(content.reshape(kind.itemsize, -1).T)
            chunk = content.reshape(-1).view(kind).reshape(self._chunk)
            place = rows[: self._chunk[0], *(slice(c, c + n) for c, n in zip(corner[1:], self._chunk[1:], strict=True))]
            place[...] = chunk[tuple(map(slice, place.shape))]


def _inflated(packed: np.ndarray, size: int) -> np.ndarray:
    """Exactly `size` bytes, however many the packed ones would become; their own checksum is checked."""
    engine = zlib.decompressobj()
    content = engine.decompress(packed.data, size + 1)
    if len(content) == size and not engine.eof:
        engine.decompress(engine.unconsumed_tail, 1)  # nothing but the checksum is left
    if len(content) != size or not engine.eof:
        raise ValueError(f"a chunk of {size:,} bytes inflates to another size")
    return np.frombuffer(content, np.uint8)


def _packed_chunks(dataset: h5py.Dataset) -> dict[tuple[int, ...], tuple[int, int]]:
    """Where each chunk lies in the file, offset and size by its first element; none if zlib cannot undo them."""
    if not _is_plain(dataset):
        return {}
    chunks = _chunks(dataset)
    if len(chunks) != _grid(dataset) or any(chunk.filter_mask for chunk in chunks):
        return {}  # some are not compressed
    return {chunk.chunk_offset: (chunk.byte_offset, chunk.size) for chunk in chunks}


def _is_plain(dataset: h5py.Dataset) -> bool:
    """Whether its chunks are gzipped, after a shuffle perhaps, and nothing else."""
    plain = dataset.compression == "gzip" and not dataset.fletcher32 and dataset.scaleoffset is None
    return (
        plain and dataset.dtype.kind in "fiu" and not dataset.file.userblock_size and hasattr(dataset.id, "chunk_iter")
    )


def _refuse_bombs(dataset: h5py.Dataset, source: str) -> None:
    """Inflates what the HDF5 library would, without keeping it: the library sets no bound to a chunk."""
    file, limit = np.memmap(dataset.file.filename, np.uint8, "r"), _chunk_bytes(dataset) + SLACK
    for chunk in _chunks(dataset):
        start = chunk.byte_offset + dataset.file.userblock_size
        engine, packed = zlib.decompressobj(), file[start : start + chunk.size].data
        if chunk.filter_mask:
            continue
        try:
            inflated = len(engine.decompress(packed, limit + 1))
        except zlib.error:
            continue  # the library says what is wrong
        if inflated > limit:
            raise DataError(f"{source}: a chunk of {limit - SLACK:,} bytes inflates to more; the file is not sound")


def _chunks(dataset: h5py.Dataset) -> list:
    """Every chunk's offset, place and size."""
    if hasattr(dataset.id, "chunk_iter"):
        chunks = []
        dataset.id.chunk_iter(chunks.append)
        return chunks
    return [dataset.id.get_chunk_info(number) for number in range(dataset.id.get_num_chunks())]  # before HDF5 1.12.3


def _grid(dataset: h5py.Dataset) -> int:
    """How many chunks there should be."""
    return math.prod(-(-size // n) for size, n in zip(dataset.shape, dataset.chunks or (), strict=True))


def _chunk_bytes(dataset: h5py.Dataset) -> int:
    return dataset.dtype.itemsize * math.prod(dataset.chunks or ())
