import numpy as np
import pytest

from ploff.judging.estimate import Estimate


def test_the_bootstrap_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    found = [Estimate.bootstrap(rng.normal(size=40), replicates=200) for _ in range(200)]
    assert 0.82 < np.mean([one.low < 0 < one.high for one in found]) < 0.96


def test_replicates_have_students_interval_and_a_shared_error_widens_it():
    alone = Estimate.of_replicates(np.array([1.0, 3.0]))
    assert alone.value == 2.0
    assert alone.high - alone.value == pytest.approx(6.3138 * np.sqrt(2), rel=1e-3)
    wide = Estimate.of_replicates(np.array([1.0, 3.0]), error=3.0)
    assert wide.high - wide.value == pytest.approx(6.3138 * np.sqrt(2 + 9), rel=1e-3)
