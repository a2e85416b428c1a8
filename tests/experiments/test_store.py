"""Results on disk survive whatever kills their writer."""

import shutil

import pytest

from ploff.experiments.store import Store
from ploff.utils.errors import PloffError


def record(key, **fields):
    return {"key": key, "status": "done", "result": {"score": 1.0}, **fields}


def test_what_was_appended_is_read_back_and_the_last_record_counts(tmp_path):
    store = Store(tmp_path)
    store.append(record("a", status="failed", reason="no"))
    store.append(record("b"))
    store.append(record("a"))
    again = Store(tmp_path)
    assert list(again.records) == ["a", "b"]
    assert again.is_done("a")
    assert again.failures() == []
    assert len(again.path.read_text().splitlines()) == 3


def test_a_line_that_was_cut_off_counts_for_nothing_at_every_length(tmp_path):
    store = Store(tmp_path)
    store.append(record("a"))
    whole = store.path.read_bytes()
    store.append(record("b"))
    both = store.path.read_bytes()
    for length in range(len(whole), len(both) - 1):
        store.path.write_bytes(both[:length])
        cut = Store(tmp_path)
        assert list(cut.records) == ["a"]
        cut.append(record("c"))
        assert list(Store(tmp_path).records) == ["a", "c"]


def test_two_writers_do_not_meet(tmp_path):
    with Store(tmp_path).writing(), pytest.raises(PloffError, match="another command is writing"):
        Store(tmp_path).writing().__enter__()


def test_a_line_with_a_flipped_bit_counts_for_nothing(tmp_path):
    store = Store(tmp_path)
    store.append(record("a", result={"score": 1.0}))
    store.append(record("b"))
    store.path.write_bytes(store.path.read_bytes().replace(b"1.0", b"3.0", 1))
    again = Store(tmp_path)
    assert (list(again.records), again.torn) == (["b"], 1)


def test_a_folder_that_is_deleted_meanwhile_is_said(tmp_path):
    store = Store(tmp_path / "out")
    with store.writing():
        store.append(record("a"))
        shutil.rmtree(tmp_path / "out")
        with pytest.raises(PloffError, match="out is gone: it was moved or deleted while results were written"):
            store.append(record("b"))
    assert not (tmp_path / "out").exists()
