"""What the package itself does: a table that is made once and then read."""

import numpy as np
import pytest

from neighbor_cases import distance_of, log
from ploff.neighbors import Euclidean, SearchConfig, TableKey, find_neighbors


def test_neighbors_are_found_once_and_then_read(tmp_path):
    data = log()
    key = TableKey.of("plain", data)
    path = tmp_path / "neighbors.table"
    config = SearchConfig(num_neighbors=10)
    made = find_neighbors(path, Euclidean(), data, key, config, quiet=True)
    written = path.stat().st_mtime_ns
    again = find_neighbors(path, Euclidean(), data, key, config, quiet=True)
    assert path.stat().st_mtime_ns == written
    np.testing.assert_array_equal(made.rows, again.rows)
    np.testing.assert_array_equal(made.rows, distance_of(Euclidean(), data).neighbors)


def test_the_plain_metric_in_other_units_is_another_metric(tmp_path):
    data = log()
    seen = data.with_normalized_observations()
    raw, standard = (TableKey.of(Euclidean.fingerprint(d), d) for d in (data, seen))
    find_neighbors(tmp_path / "t", Euclidean(), data, raw, quiet=True)
    with pytest.raises(ValueError, match="another metric"):
        find_neighbors(tmp_path / "t", Euclidean(), seen, standard, quiet=True)
