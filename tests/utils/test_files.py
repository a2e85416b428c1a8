import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from ploff.utils import files
from ploff.utils.errors import DamagedFileError, PloffError


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    def write_half():
        with files.atomic_write(path) as partial:
            partial.write_text("half")
            raise OSError("disk full")

    path = tmp_path / "new" / "a.txt"
    files.write_text(path, "before")
    with files.atomic_write(path) as partial:
        partial.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    with pytest.raises(OSError, match="disk full"):
        write_half()
    assert path.read_text() == "after"
    assert [file.name for file in path.parent.iterdir()] == ["a.txt"]


def test_what_is_written_beside_a_file_keeps_its_suffix(tmp_path):
    with files.atomic_write(tmp_path / "a.npz") as partial:
        np.savez(partial, x=np.arange(3))
    with np.load(tmp_path / "a.npz") as archive:
        assert archive["x"].tolist() == [0, 1, 2]


def test_a_lock_that_is_taken_is_said_and_one_that_was_released_is_not(tmp_path):
    def refuse():
        raise PloffError("somebody is at work")

    def lock():
        return files.locked(tmp_path / "new" / "lock", when_taken=refuse)

    for _ in range(2):
        with lock(), pytest.raises(PloffError, match="somebody is at work"), lock():
            pass


def test_rows_are_written_under_the_union_of_their_columns(tmp_path):
    files.write_csv(tmp_path / "a.csv", [{"step": 1, "loss": 0.5}, {"step": 2, "score": 3.0}])
    assert (tmp_path / "a.csv").read_text() == "step,loss,score\n1,0.5,\n2,,3.0\n"
    assert files.read_csv(tmp_path / "a.csv")[1] == {"step": "2", "loss": "", "score": "3.0"}
    assert files.read_csv(tmp_path / "missing.csv") == []


def test_broken_json_is_named_in_one_line(tmp_path):
    files.write_json(tmp_path / "a.json", {"values": np.arange(3), "folder": tmp_path})
    assert files.read_json(tmp_path / "a.json") == {"values": [0, 1, 2], "folder": str(tmp_path)}
    (tmp_path / "a.json").write_text('{\n"values": [0, 1')
    with pytest.raises(PloffError, match=r"a\.json is not valid JSON \(line 2\).*delete it to start anew"):
        files.read_json(tmp_path / "a.json")


def test_a_fingerprint_tells_values_types_and_shapes_apart():
    rows = np.arange(6, dtype=np.float32)
    others = [rows + 1, rows.astype(np.float64), rows.reshape(2, 3), rows.view(np.int32)]
    assert files.fingerprint({"a": rows}) == files.fingerprint({"a": rows.copy()})
    assert len({files.fingerprint({"a": each}) for each in (rows, *others)}) == 5


def test_no_bit_of_a_record_can_change_its_meaning_unseen(tmp_path):
    path, content = tmp_path / "a.json", {"score": 1.5, "name": "walk", "steps": [1, 2], "none": None}
    files.write_record(path, content)
    assert files.read_record(path) == {"format": "ploff record 1", **content}
    whole, refused = path.read_bytes(), 0
    for position in range(len(whole)):
        for bit in range(8):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ (1 << bit)]) + whole[position + 1 :])
            try:
                assert files.read_record(path) == {"format": "ploff record 1", **content}  # a blank of another kind
            except DamagedFileError:
                refused += 1
    assert refused > 6 * len(whole)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "No space left on device; .* are free there: make room, and run the same command again"),
        (errno.EROFS, "Read-only file system; choose a folder that you may write to"),
        (errno.EFBIG, "File too large; raise the limit"),
    ],
)
def test_a_disk_that_refuses_is_named_with_the_remedy(number, remedy, tmp_path):
    def write_half():
        with files.atomic_write(tmp_path / "new" / "a.txt") as partial:
            partial.write_text("half")
            raise OSError(number, os.strerror(number))

    with pytest.raises(PloffError, match=f"^{tmp_path}/new/a.txt cannot be written: {remedy}"):
        write_half()
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_where_a_folder_should_be_is_said(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(PloffError, match=r"a/b\.txt cannot be written: .*; choose a folder that you may write to"):
        files.write_text(tmp_path / "a" / "b.txt", "text")


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    code = (
        "import os, signal, sys\nfrom ploff.utils import files\n"
        "with files.atomic_write(sys.argv[1]) as partial:\n"
        "    partial.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.npz")])
    (left,) = tmp_path.iterdir()
    assert files.LEFTOVER.fullmatch(left.name)
    with files.atomic_write(tmp_path / "b.npz") as partial:
        partial.write_text("whole")
        assert [path.name for path in tmp_path.iterdir()] == [partial.name]
        files.remove_leftovers(tmp_path)
        assert partial.exists()


def test_two_folders_change_places_in_one_step(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert files.exchange(tmp_path / "a", tmp_path / "b") == (sys.platform == "linux")
    assert not files.exchange(tmp_path / "a", tmp_path / "missing")
    assert (tmp_path / "a" / "b").exists() == (sys.platform == "linux")
