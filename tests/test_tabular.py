"""F and F_w on deterministic MDPs: propositions 1 to 3, exact solutions, and numbers worked out by hand."""

import pathlib
import re

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ploff.errors import DataError, PloffError
from ploff.tabular import (
    FiniteMDP,
    bellman,
    exact_state_distances,
    independent,
    iterate,
    over_shared_actions,
    solve,
)
from tabular_cases import (
    DISCOUNTS,
    ROUNDING,
    SEEDS,
    action_aware,
    assert_pseudometric,
    deterministic_mdps,
    gap,
    random_start,
    stochastic_mdps,
)

thorough = settings(max_examples=60, deadline=None)


@st.composite
def operators(draw):
    """F or F_w of a random deterministic MDP."""
    mdp = draw(deterministic_mdps())
    return bellman(mdp, discount=draw(DISCOUNTS), **draw(action_aware(mdp.num_actions)))


def three_states() -> tuple[FiniteMDP, tuple[int, int, int]]:
    """x: the first action stays, the second goes to z. y: both go to z. z: both stay. Only z pays: 1."""
    x, y, z = 0, 1, 2
    return FiniteMDP.deterministic([[x, z], [z, z], [z, z]], [[0, 0], [0, 0], [1, 1]]), (x, y, z)


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


def test_the_action_aware_distance_of_three_states_by_hand():
    # With ρ = (3/4, 1/4):  D(x,z) = 3/4 (1 + D(x,z)/2) + 1/4 = 1 + 3/8 D(x,z), so D(x,z) = 8/5.
    # With w = 0.1 and one-hot actions, different actions are 0.1·√2 further apart, equal ones not at all.
    mdp, (x, y, z) = three_states()
    d = solve(bellman(mdp, discount=0.5, action_weight=0.1, next_actions=[0.75, 0.25]))
    assert d[x, 0, z, 0] == pytest.approx(1 + (8 / 5) / 2)
    assert d[x, 0, z, 1] == pytest.approx(1 + (8 / 5) / 2 + 0.1 * np.sqrt(2))
    assert d[x, 1, y, 0] == pytest.approx(0.1 * np.sqrt(2))


@thorough
@given(operators(), SEEDS)
def test_a_sweep_agrees_with_the_definition_entry_by_entry(operator, seed):
    mdp, rho = operator.mdp, operator.next_actions
    d = np.random.default_rng(seed).random(operator.zero().shape)
    expected = operator.zero()
    for s, a, t, b in np.ndindex(expected.shape):
        after = [d[mdp.successors[s, a], u, mdp.successors[t, b], u] for u in range(mdp.num_actions)]
        expected[s, a, t, b] = abs(mdp.rewards[s, a] - mdp.rewards[t, b]) + operator.action_costs[a, b]
        expected[s, a, t, b] += operator.discount * sum(p * x for p, x in zip(rho, after, strict=True))
    np.testing.assert_allclose(operator(d), expected, atol=1e-12)


@thorough
@given(operators(), SEEDS)
def test_proposition_1_pseudometrics_stay_pseudometrics(operator, seed):
    start = random_start(operator.mdp, np.random.default_rng(seed))
    assert_pseudometric(start)
    assert_pseudometric(operator(start))
    assert_pseudometric(solve(operator))


@thorough
@given(operators(), SEEDS)
def test_proposition_2_a_sweep_contracts_by_the_discount(operator, seed):
    rng = np.random.default_rng(seed)
    one, other = (random_start(operator.mdp, rng) for _ in range(2))
    assert gap(operator(one), operator(other)) <= operator.discount * gap(one, other) + ROUNDING


@thorough
@given(operators(), SEEDS, st.integers(1, 8))
def test_proposition_3_every_start_leads_to_the_same_fixed_point(operator, seed, sweeps):
    limit = solve(operator)
    assert gap(operator(limit), limit) <= ROUNDING
    start = distances = random_start(operator.mdp, np.random.default_rng(seed))
    for _ in range(sweeps):
        distances = operator(distances)
    assert gap(distances, limit) <= operator.discount**sweeps * gap(start, limit) + ROUNDING


@thorough
@given(operators(), SEEDS, st.sampled_from([1e-1, 1e-4, 1e-9]))
def test_iteration_and_the_linear_system_agree_within_the_stated_error(operator, seed, tolerance):
    start = random_start(operator.mdp, np.random.default_rng(seed))
    followed = iterate(operator, start, tolerance)
    assert followed.error_bound <= tolerance
    assert gap(followed.distances, solve(operator)) <= followed.error_bound + 1e-12


def test_a_coarser_tolerance_takes_fewer_sweeps():
    operator = bellman(three_states()[0], discount=0.9)
    fine, coarse = iterate(operator, tolerance=1e-9), iterate(operator, tolerance=1e-2)
    assert coarse.sweeps < fine.sweeps
    assert gap(coarse.distances, fine.distances) > 1e-9  # so the bound has something to bound


@thorough
@given(operators())
def test_the_action_term_is_paid_once_and_never_accumulates(operator):
    plain = bellman(operator.mdp, discount=float(operator.discount), next_actions=operator.next_actions)
    np.testing.assert_allclose(
        solve(operator), solve(plain) + operator.action_costs[:, None, :], atol=ROUNDING
    )
    assert solve(operator).max() <= operator.bound + ROUNDING


@thorough
@given(operators())
def test_the_square_root_of_the_distance_is_euclidean(operator):
    # d* sums |differences of rewards|, so it is an ℓ₁ distance. The root of one embeds in Euclidean
    # space: the doubly centred −d*/2 has no negative eigenvalue (Schoenberg).
    plain = bellman(operator.mdp, discount=float(operator.discount), next_actions=operator.next_actions)
    assert _least_eigenvalue(solve(plain)) >= -1e-7


def test_the_distance_itself_need_not_be_euclidean():
    # From c nothing is ever paid; from leaf i, γ⁻ⁱ is paid after i steps. So every leaf is at distance 1
    # from c and at distance 2 from every other leaf: each two leaves would lie on opposite sides of c.
    gamma, steps = 0.5, 3
    nothing = steps * steps
    successors, rewards = np.full(nothing + 1, nothing), np.zeros(nothing + 1)
    for leaf in range(steps):
        path = [leaf * steps + step for step in range(leaf + 1)]
        successors[path] = [*path[1:], nothing]
        rewards[path[-1]] = gamma**-leaf
    distances = exact_state_distances(FiniteMDP.deterministic(successors[:, None], rewards[:, None]), gamma)
    points = [nothing, *range(0, nothing, steps)]
    star = distances[np.ix_(points, points)]
    np.testing.assert_allclose(star, [[0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0]], atol=1e-12)
    assert _least_eigenvalue(star**2) < -0.1
    assert _least_eigenvalue(star) >= -1e-12


def _least_eigenvalue(squared: np.ndarray) -> float:
    squared = squared.reshape(int(np.sqrt(squared.size)), -1)
    centring = np.eye(len(squared)) - 1 / len(squared)
    return float(np.linalg.eigvalsh(-centring @ squared @ centring / 2)[0])


def test_distances_are_in_double_precision_and_leave_jax_as_it_was():
    mdp, _ = three_states()
    assert solve(bellman(mdp, discount=0.9)).dtype == np.float64
    assert iterate(bellman(mdp, discount=0.9)).distances.dtype == np.float64
    assert jax.numpy.zeros(1).dtype == np.float32


def test_the_end_of_an_episode_is_an_absorbing_state_without_reward():
    # One state: the first action pays 1 and stays, the second pays 2 and ends.
    mdp = FiniteMDP.deterministic([[0, 0]], [[1, 2]], terminals=[[False, True]])
    np.testing.assert_array_equal(mdp.successors, [[0, 1], [1, 1]])
    np.testing.assert_array_equal(mdp.rewards, [[1, 2], [0, 0]])
    # D(start, end) = ½(1 + γ D) + ½·2, so with γ = ½ it is 3/2 + D/4 = 2.
    assert exact_state_distances(mdp, 0.5)[0, 1] == pytest.approx(2)


@thorough
@given(st.one_of(deterministic_mdps(), stochastic_mdps()), SEEDS)
def test_the_mean_over_shared_actions_pairs_each_action_with_itself(mdp, seed):
    rng = np.random.default_rng(seed)
    distances, rho = random_start(mdp, rng), rng.dirichlet(np.ones(mdp.num_actions))
    s, t = rng.integers(mdp.num_states, size=2)
    expected = sum(rho[u] * distances[s, u, t, u] for u in range(mdp.num_actions))
    assert over_shared_actions(distances, rho)[s, t] == pytest.approx(expected)


def test_the_example_in_the_documentation_runs():
    page = pathlib.Path(__file__).parents[1] / "docs" / "theory.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})


def test_wrong_input_is_refused_in_one_line():
    mdp, _ = three_states()
    coin = FiniteMDP([[0.0], [1.0]], [[[0.5, 0.5]], [[0.0, 1.0]]])
    with pytest.raises(PloffError, match="this one is stochastic"):
        bellman(coin, discount=0.9)
    with pytest.raises(PloffError, match=r"discount must lie in \[0, 1\)"):
        bellman(mdp, discount=1.0)
    with pytest.raises(PloffError, match="2 probabilities that sum to 1"):
        bellman(mdp, discount=0.9, next_actions=[0.5, 0.6])
    with pytest.raises(PloffError, match=r"shape \(2, 2\)"):
        independent(mdp, discount=0.9, action_distances=np.zeros(3))
    with pytest.raises(PloffError, match="must not be negative"):
        bellman(mdp, discount=0.9, action_weight=-1)
    with pytest.raises(PloffError, match="below the rounding error"):
        iterate(bellman(mdp, discount=0.9), tolerance=1e-16)
    with pytest.raises(DataError, match="state 0, action 0 must be non-negative and sum to 1"):
        FiniteMDP([[0.0]], [[[0.9]]])
    with pytest.raises(DataError, match="state 1, action 0 is nan"):
        FiniteMDP([[0.0], [np.nan]], np.full((2, 1, 2), 0.5))
    with pytest.raises(DataError, match=r"states 0 … 0, got 3 … 3"):
        FiniteMDP.deterministic([[3]], [[0.0]])
    with pytest.raises(DataError, match="must all have the shape"):
        FiniteMDP.deterministic([[0]], [0.0])
