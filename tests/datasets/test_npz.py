import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from data_cases import counts, counts_by_hand, make_rows, refusal
from ploff import datasets


def test_archives_with_d4rls_names_are_read(tmp_path):
    rows = {k: v for k, v in make_rows("hopper", successors=True).items() if not k.startswith("infos/")}
    np.savez(tmp_path / "hopper-mine.npz", **rows)
    transitions = datasets.load(tmp_path / "hopper-mine.npz")
    assert counts(transitions) == counts_by_hand(rows)
    np.testing.assert_array_equal(transitions.next_observations(), rows["next_observations"])
    assert transitions.origin.environment == "hopper"


def test_a_damaged_archive_or_table_is_refused(tmp_path):
    for name, beginning in (("a.npz", b"PK\x03\x04"), ("a.parquet", b"PAR1")):
        (tmp_path / name).write_bytes(beginning + bytes(100))
        assert "cannot be read as" in refusal(tmp_path / name)


def archive_with(path, **members):
    """A sound archive, and members as bytes."""
    rows = {k: v for k, v in make_rows("hopper").items() if not k.startswith("infos/") and k not in members}
    np.savez(path, **rows)
    with zipfile.ZipFile(path, "a") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def as_npy(values, **options):
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(values), **options)
    return content.getvalue()


def test_arrays_that_nobody_asked_for_are_not_read(tmp_path):
    path = archive_with(tmp_path / "hopper.npz", unneeded=b"not an array at all")
    assert len(datasets.load(path)) == 260


def test_an_array_that_is_there_twice_is_refused(tmp_path):
    path = archive_with(tmp_path / "hopper.npz")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("rewards.npy", as_npy(np.zeros(260)))
    assert "holds rewards twice" in refusal(path)


def test_an_array_is_as_large_as_it_says(tmp_path):
    header = as_npy(np.zeros(260)).replace(b"(260,)", b"(9" + b"9" * 2 + b",)")
    assert "rewards declares 7,992 bytes and holds 2,080" in refusal(archive_with(tmp_path / "a.npz", rewards=header))


def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    path = archive_with(tmp_path / "hopper.npz")
    monkeypatch.setattr("ploff.datasets.validate.free_memory", lambda: 5_000)
    assert "declares 10.5 kB, more than the 5.0 kB of memory that are free" in refusal(path)


def test_nothing_is_unpickled(tmp_path):
    class Planted:
        def __reduce__(self):
            return open, (str(tmp_path / "was-run"), "w")

    for content in (as_npy(np.array([Planted()]), allow_pickle=True), pickle.dumps(Planted())):
        assert "cannot be read as an NPZ archive" in refusal(archive_with(tmp_path / "a.npz", rewards=content))
    assert not (tmp_path / "was-run").exists()


def test_what_ploff_noted_is_held_to_account(tmp_path):
    note = {
        "origin": {"name": "walk", "environment": "hopper", "physics": "d4rl", "options": "{}"},
        "action_space": {"kind": "box", "low": [-1, -1, -1], "high": [1, 1, 1]},
    }

    def said(part, **changes):
        changed = {**note, part: {**note[part], **changes}}
        return refusal(archive_with(tmp_path / "a.npz", ploff=as_npy(json.dumps(changed))))

    assert "physics is one of d4rl, gymnasium, got 'moon'" in said("origin", physics="moon")
    assert "reference returns (0.0, 0.0) score nothing" in said("origin", reference_scores=[0, 0])
    assert "options are '[1'; an object in JSON is expected" in said("origin", options="[1")
    assert "cannot have been written as O" in said("origin", written_as=[["rewards", "O", 1]])
    assert "lower before higher" in said("action_space", low=[2, -1, -1])
    assert "what ploff noted in it is damaged" in refusal(archive_with(tmp_path / "a.npz", ploff=as_npy("{")))
