"""HDF5 arrays, read on every core.

The HDF5 library inflates one chunk at a time, under one lock. A chunk that is plainly gzipped can be fetched
as it lies in the file and inflated by zlib, which lets other threads run meanwhile. Anything else is left to
h5py.
"""

import itertools
import os
import pathlib
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np

from ploff.errors import DataError

BLOCK_ROWS = 65_536  # rows in memory at a time, at least, when an array is only looked through


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
        if "signature not found" in str(error):
            raise DataError(
                f"{path} is not an HDF5 file; `ploff data show` takes .hdf5, .npz, .parquet, .csv"
            ) from None
        raise DataError(f"{path} cannot be opened as HDF5: {error}") from None


class StoredRows:
    """An array in a file: all of it by `read`, or a block of rows at a time by iteration."""

    def __init__(self, dataset: h5py.Dataset):
        self._dataset = dataset
        self.shape: tuple[int, ...] = dataset.shape
        self.dtype = dataset.dtype.newbyteorder("=")
        self._chunks: tuple[int, ...] = dataset.chunks or (1, *dataset.shape[1:])
        self._inflatable = _is_plainly_gzipped(dataset)
        self._workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

    def read(self) -> np.ndarray:
        """The whole array, in the machine's own byte order."""
        return self._read(0, self.shape[0]) if self.shape else self._dataset[()]

    def __iter__(self) -> Iterator[np.ndarray]:
        step = -(-BLOCK_ROWS // self._chunks[0]) * self._chunks[0]
        for start in range(0, self.shape[0], step):
            yield self._read(start, min(start + step, self.shape[0]))

    def _read(self, start: int, stop: int) -> np.ndarray:
        """Rows from `start`, which a chunk begins at."""
        rows = np.empty((stop - start, *self.shape[1:]), self.dtype)
        try:
            if self._inflatable:
                self._inflate(rows, start, stop)
            elif rows.size:
                rows[...] = self._dataset[start:stop]
        except (OSError, zlib.error, ValueError) as error:
            name = f"{self._dataset.file.filename}: {str(self._dataset.name).lstrip('/')}"
            raise DataError(
                f"{name} is damaged near row {start} ({error}); download or copy it again"
            ) from None
        return rows

    def _inflate(self, rows: np.ndarray, start: int, stop: int) -> None:
        corners = itertools.product(
            range(start, stop, self._chunks[0]),
            *(range(0, size, chunk) for size, chunk in zip(self.shape[1:], self._chunks[1:], strict=True)),
        )
        with ThreadPoolExecutor(self._workers) as pool:
            for _ in pool.map(lambda corner: self._inflate_chunk(rows, start, corner), corners):
                pass

    def _inflate_chunk(self, rows: np.ndarray, start: int, corner: tuple[int, ...]) -> None:
        dataset = self._dataset
        ends = [min(c + n, size) for c, n, size in zip(corner, self._chunks, self.shape, strict=True)]
        place = (slice(corner[0] - start, ends[0] - start), *map(slice, corner[1:], ends[1:]))
        skipped, packed = dataset.id.read_direct_chunk(corner)
        if skipped:  # the writer left out a filter for this chunk
            rows[place] = dataset[tuple(map(slice, corner, ends))]
            return
        content = np.frombuffer(zlib.decompress(packed), np.uint8)
        if dataset.shuffle:
            content = np.ascontiguousarray(content.reshape(dataset.dtype.itemsize, -1).T).reshape(-1)
        chunk = content.view(dataset.dtype).reshape(self._chunks)
        rows[place] = chunk[tuple(slice(0, end - c) for c, end in zip(corner, ends, strict=True))]


def _is_plainly_gzipped(dataset: h5py.Dataset) -> bool:
    """Whether zlib (and a reordering of bytes) undoes all that was done to every chunk."""
    if dataset.chunks is None or dataset.compression != "gzip" or dataset.dtype.kind not in "fiu":
        return False
    if dataset.fletcher32 or dataset.scaleoffset is not None:
        return False
    grid = np.prod([-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)])
    return dataset.id.get_num_chunks() == grid  # chunks that were never written hold the fill value
