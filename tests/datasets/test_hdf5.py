import re
import tracemalloc
import zlib

import h5py
import numpy as np
import pytest

from data_cases import file_with, make_rows, refusal, write_hdf5
from ploff.datasets import hdf5


@pytest.mark.parametrize(
    "options",
    [
        {"compression": None},
        {"chunks": (100, 2)},
        {"chunks": (33, 1), "shuffle": True},
        {"compression": "lzf"},
        {"fletcher32": True},
        {"dtype": ">f8"},
        {"dtype": ">f4", "chunks": (7, 4), "shuffle": True},
    ],
    ids=str,
)
def test_stored_rows_are_what_h5py_reads(options, tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "BLOCK_ROWS", 64)
    values = np.random.default_rng(0).standard_normal((321, 5)).round(1)
    path = write_hdf5(tmp_path / "a.hdf5", {"x": values}, **options)
    with h5py.File(path) as file:
        stored, expected = hdf5.StoredRows(file["x"]), file["x"][()]
        np.testing.assert_array_equal(stored.read(), expected)
        np.testing.assert_array_equal(np.concatenate(list(stored)), expected)
        assert stored.read().dtype.isnative


def test_chunks_that_were_never_written_are_no_data(tmp_path):
    path = file_with(tmp_path, actions=None)
    with h5py.File(path, "a") as file:
        sparse = file.create_dataset("actions", (260, 3), "f4", chunks=(10, 3), compression="gzip", fillvalue=7.0)
        sparse[20:25] = 1.0
    assert "actions: 25 of 26 chunks were never written" in refusal(path)
    path = file_with(tmp_path, actions=None)
    with h5py.File(path, "a") as file:
        file.create_dataset("actions", (260, 3), "f4")
    assert "actions was declared and never written" in refusal(path)


def test_nothing_is_read_from_outside_of_the_file(tmp_path):
    other = write_hdf5(tmp_path / "other.hdf5", make_rows("hopper"))
    path = file_with(tmp_path, observations=None)
    with h5py.File(path, "a") as file:
        file["observations"] = h5py.ExternalLink(other, "/observations")
    assert "observations is a link to another file" in refusal(path)
    with h5py.File(file_with(tmp_path), "a") as file:
        file["infos/more"] = h5py.ExternalLink(other, "/observations")
    assert "more is a link to another file" in refusal(path, infos=True)
    path = file_with(tmp_path, observations=None)
    (tmp_path / "secret").write_bytes(bytes(260 * 5 * 4))
    with h5py.File(path, "a") as file:
        file.create_dataset("observations", (260, 5), "f4", external=[(tmp_path / "secret", 0, h5py.h5f.UNLIMITED)])
    assert "observations is put together from other files" in refusal(path)
    path = file_with(tmp_path, observations=None)
    with h5py.File(path, "a") as file:
        layout = h5py.VirtualLayout((260, 5), "f4")
        layout[:] = h5py.VirtualSource(tmp_path / "missing.hdf5", "observations", (260, 5))
        file.create_virtual_dataset("observations", layout)
    assert "observations is put together from other files" in refusal(path)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_read(tmp_path):
    path = file_with(tmp_path, rewards=None)
    with h5py.File(path, "a") as file:
        file.create_dataset("rewards", (10**13,), "f4", chunks=(1000,), compression="gzip")
    assert re.search(r"rewards declares 40.0 TB, more than the .* of memory that are free", refusal(path))


@pytest.mark.parametrize("fletcher32", [False, True])
def test_a_chunk_inflates_to_what_it_says_and_no_further(fletcher32, tmp_path):
    path = file_with(tmp_path, rewards=None)
    with h5py.File(path, "a") as file:
        rewards = file.create_dataset("rewards", (260,), "f4", chunks=(260,), compression="gzip", fletcher32=fletcher32)
        rewards.id.write_direct_chunk((0,), zlib.compress(bytes(10**7)) + bytes(4 * fletcher32))
    tracemalloc.start()
    assert re.search("inflates to (another size|more)", refusal(path))
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_a_file_that_is_no_hdf5_is_refused(tmp_path):
    path = tmp_path / "hopper.hdf5"
    path.write_text("<html>404 not found</html>")
    assert "is not an HDF5 file: it begins with b'<html>40'" in refusal(path)
    assert "cannot be opened as HDF5" in refusal(path, format="d4rl")


def test_a_truncated_file_is_refused(tmp_path):
    path = file_with(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert f"is truncated: {len(whole) // 2:,} of {len(whole):,} bytes" in refusal(path)


def test_a_damaged_chunk_is_refused(tmp_path):
    path = file_with(tmp_path)
    with h5py.File(path) as file:
        chunk = file["actions"].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset + 20 : chunk.byte_offset + 60] = bytes(40)
    path.write_bytes(content)
    assert "actions is damaged near row 0" in refusal(path)
