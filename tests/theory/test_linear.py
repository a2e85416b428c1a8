"""Exact solutions against numbers worked out by hand, and against iteration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ploff.theory import FiniteMDP, bellman, exact_state_distances, independent, iterate, linear, solve
from tabular_cases import SEEDS, gap, operators, random_start, three_states

thorough = settings(max_examples=60, deadline=None)


def test_three_states_worked_out_by_hand():
    # γ = 1/2. D(s,t) is the mean of d(s,u; t,u) over both actions u.
    #   D(y,z): both actions pay 0 against 1, and both sides are in z afterwards:  D(y,z) = 1.
    #   D(x,z): the first action pays 0 against 1 and leaves x against z:  1 + D(x,z)/2;
    #           the second pays 0 against 1 and leaves z against z:        1.
    #           The mean is D(x,z) = 1 + D(x,z)/4, so  D(x,z) = 4/3.
    #   D(x,y): the first action leaves x against z:  0 + D(x,z)/2 = 2/3;
    #           the second leaves z against z:        0.                     So  D(x,y) = 1/3.
    mdp, (x, y, z) = three_states()
    first, second = 0, 1
    d = solve(bellman(mdp, discount=0.5))
    np.testing.assert_allclose(
        exact_state_distances(mdp, 0.5), [[0, 1 / 3, 4 / 3], [1 / 3, 0, 1], [4 / 3, 1, 0]], atol=1e-15
    )
    # d(s,a; t,b) = |r − r′| + D(s′,t′)/2:
    assert d[x, first, x, second] == pytest.approx(0 + (4 / 3) / 2)  # x against z afterwards
    assert d[x, first, y, first] == pytest.approx(0 + (4 / 3) / 2)  # x against z
    assert d[x, second, y, first] == pytest.approx(0)  # both in z: different pairs that nothing tells apart
    assert d[x, first, z, second] == pytest.approx(1 + (4 / 3) / 2)
    assert d[y, second, z, first] == pytest.approx(1)


@thorough
@given(operators(), SEEDS, st.sampled_from([1e-1, 1e-4, 1e-9]))
def test_iteration_and_the_linear_system_agree_within_the_stated_error(operator, seed, tolerance):
    start = random_start(operator.mdp, np.random.default_rng(seed))
    followed = iterate(operator, start, tolerance)
    assert followed.error_bound <= tolerance
    assert gap(followed.distances, solve(operator)) <= followed.error_bound + 1e-12


@pytest.mark.parametrize("pinned", [False, True])
def test_sparse_and_dense_algebra_and_iteration_agree(pinned, monkeypatch):
    # A ring of 30 states; each action steps to one side, and slips to the other one time in five.
    rng, count = np.random.default_rng(0), 30
    ring = np.stack([np.roll(np.eye(count), shift, axis=1) for shift in (1, -1)], axis=1)
    mdp = FiniteMDP(rng.random((count, 2)), 0.8 * ring + 0.2 * ring[:, ::-1])
    operator = independent(mdp, discount=0.8, pinned=pinned)
    assert np.count_nonzero(mdp.probabilities) < linear.DENSE_FROM * mdp.probabilities.size
    sparse = solve(operator)
    monkeypatch.setattr(linear, "DENSE_FROM", 0.0)
    np.testing.assert_allclose(sparse, solve(operator), atol=1e-12)
    assert gap(sparse, iterate(operator).distances) <= 1e-9
