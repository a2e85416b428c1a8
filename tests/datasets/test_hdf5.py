import h5py
import numpy as np
import pytest

from data_cases import file_with, refusal, write_hdf5
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


def test_chunks_that_were_never_written_hold_the_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        sparse = file.create_dataset("x", (100, 2), "f4", chunks=(10, 2), compression="gzip", fillvalue=7.0)
        sparse[20:25] = 1.0
        rows = hdf5.StoredRows(sparse).read()
    assert (rows[20:25] == 1).all()
    assert (rows.sum(), len(rows)) == (7 * 190 + 10, 100)


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
