import numpy as np

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
