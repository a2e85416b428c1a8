"""HDF5 arrays, read on every core.

The HDF5 library inflates one chunk at a time, under one lock. Where chunks are plainly gzipped, it is only asked
where they lie; zlib inflates them, which lets other threads run meanwhile. Anything else is left to h5py.
"""

import itertools
import pathlib
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np

from ploff.utils.cores import available_cores
from ploff.utils.errors import DataError

BLOCK_ROWS = 131_072  # rows in memory at a time, at least, when an array is only looked through


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


class StoredRows:
    """An array in a file: all of it by `read`, or a block of rows at a time by iteration."""

    def __init__(self, dataset: h5py.Dataset):
        self._dataset = dataset
        self.shape: tuple[int, ...] = dataset.shape
        self.dtype = dataset.dtype.newbyteorder("=")
        self._chunk: tuple[int, ...] = dataset.chunks or (1, *dataset.shape[1:])
        self._packed = _packed_chunks(dataset)

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
        except (OSError, zlib.error, ValueError) as error:
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
            content = np.frombuffer(zlib.decompress(file[offset : offset + size].data), np.uint8)
            if shuffled:
                content = np.ascontiguousarray(content.reshape(kind.itemsize, -1).T)
            chunk = content.reshape(-1).view(kind).reshape(self._chunk)
            place = rows[: self._chunk[0], *(slice(c, c + n) for c, n in zip(corner[1:], self._chunk[1:], strict=True))]
            place[...] = chunk[tuple(map(slice, place.shape))]


def _packed_chunks(dataset: h5py.Dataset) -> dict[tuple[int, ...], tuple[int, int]]:
    """Where each chunk lies in the file, offset and size by its first element; none if zlib cannot undo them."""
    plain = dataset.compression == "gzip" and not dataset.fletcher32 and dataset.scaleoffset is None
    if not plain or dataset.dtype.kind not in "fiu" or dataset.file.userblock_size:
        return {}
    if not hasattr(dataset.id, "chunk_iter"):  # an HDF5 library older than 1.12.3
        return {}
    chunks = []
    dataset.id.chunk_iter(chunks.append)
    grid = np.prod([-(-size // n) for size, n in zip(dataset.shape, dataset.chunks or (), strict=True)])
    if len(chunks) != grid or any(chunk.filter_mask for chunk in chunks):
        return {}  # some were never written, or not compressed
    return {chunk.chunk_offset: (chunk.byte_offset, chunk.size) for chunk in chunks}
