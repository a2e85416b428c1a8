import numpy as np
import pytest

from ploff import tasks
from ploff.utils.errors import PloffError


def test_d4rls_references_and_scores():
    assert tasks.reference_scores("hopper") == (-20.272305, 3234.3)
    halfway = (-20.272305 + 3234.3) / 2
    scores = tasks.normalized_score([-20.272305, halfway, 3234.3], (-20.272305, 3234.3))
    np.testing.assert_allclose(scores, [0, 50, 100])


def test_references_can_be_registered_and_must_make_sense(monkeypatch):
    monkeypatch.setattr(tasks, "_registered", {})
    tasks.register_reference("mine", 0.0, 500.0)
    assert tasks.reference_scores("mine") == (0.0, 500.0)
    for low, high in [(1.0, 1.0), (2.0, 1.0), (0.0, float("nan"))]:
        with pytest.raises(PloffError, match="low < high"):
            tasks.register_reference("mine", low, high)
