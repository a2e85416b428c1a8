import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from ploff.datasets.limits import check_parquet, check_text
from ploff.utils.errors import DataError


def test_a_value_repeated_a_million_times_counts_a_million_times(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"reward": np.zeros(10**6), "other": np.zeros(10**6)}), path)
    assert path.stat().st_size < 10**5
    monkeypatch.setattr("ploff.datasets.validate.free_memory", lambda: 10**7)
    with pytest.raises(DataError, match=r"declares 16.0 MB, more than the 10.0 MB"):
        check_parquet(path)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.csv.zst"])
def test_a_text_counts_as_long_as_it_is_unpacked(name, tmp_path, monkeypatch):
    path = tmp_path / name
    with pa.output_stream(str(path)) as out:  # which packs by the file's name
        out.write(b"reward\n" + b"0\n" * 6_000_000)
    assert path.stat().st_size < 10**5 or name == "a.csv"
    check_text(path)
    monkeypatch.setattr("ploff.datasets.validate.free_memory", lambda: 10**7)
    with pytest.raises(DataError, match=r"declares 12.\d MB, more than the 10.0 MB"):
        check_text(path)
