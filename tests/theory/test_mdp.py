import numpy as np
import pytest

from ploff.theory import FiniteMDP, exact_state_distances
from ploff.utils.errors import DataError


def test_the_end_of_an_episode_is_an_absorbing_state_without_reward():
    # One state: the first action pays 1 and stays, the second pays 2 and ends.
    mdp = FiniteMDP.deterministic([[0, 0]], [[1, 2]], terminals=[[False, True]])
    np.testing.assert_array_equal(mdp.successors, [[0, 1], [1, 1]])
    np.testing.assert_array_equal(mdp.rewards, [[1, 2], [0, 0]])
    # D(start, end) = ½(1 + γ D) + ½·2, so with γ = ½ it is 3/2 + D/4 = 2.
    assert exact_state_distances(mdp, 0.5)[0, 1] == pytest.approx(2)


def test_wrong_input_is_refused_in_one_line():
    with pytest.raises(DataError, match="state 0, action 0 must be non-negative and sum to 1"):
        FiniteMDP([[0.0]], [[[0.9]]])
    with pytest.raises(DataError, match="state 1, action 0 is nan"):
        FiniteMDP([[0.0], [np.nan]], np.full((2, 1, 2), 0.5))
    with pytest.raises(DataError, match=r"states 0 … 0, got 3 … 3"):
        FiniteMDP.deterministic([[3]], [[0.0]])
    with pytest.raises(DataError, match="must all have the shape"):
        FiniteMDP.deterministic([[0]], [0.0])
