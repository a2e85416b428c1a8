"""F̂ and its averaged form: proposition 4, how F̂ fails where moves are uncertain, and what converges there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ploff.theory import (
    Averages,
    FiniteMDP,
    Steps,
    apply_samples,
    bellman,
    draw_steps,
    independent,
    iterate,
    solve,
)
from ploff.utils.errors import PloffError
from tabular_cases import (
    DISCOUNTS,
    GAMMA,
    ROUNDING,
    SEEDS,
    coin,
    deterministic_mdps,
    gap,
    own_terms,
    random_start,
)

thorough = settings(max_examples=40, deadline=None)


def one_step(state: int, action: int, reward: float, next_state: int) -> Steps:
    return Steps(*(np.asarray([x]) for x in (state, action, reward, next_state)))


@thorough
@given(deterministic_mdps(), DISCOUNTS, SEEDS, st.data())
def test_a_sample_moves_one_entry_to_its_sweep_and_leaves_the_rest(mdp, discount, seed, data):
    operator = bellman(mdp, discount=discount, **data.draw(own_terms(mdp)))
    rng = np.random.default_rng(seed)
    start = random_start(mdp, rng)
    first, second = draw_steps(mdp, 1, rng), draw_steps(mdp, 1, rng)
    entry = first.states[0], first.actions[0], second.states[0], second.actions[0]
    expected = start.copy()
    expected[entry] = operator(start)[entry]
    moved = apply_samples(operator, start, first, second)
    np.testing.assert_allclose(moved.distances, expected, atol=1e-12)
    assert moved.visits.sum() == moved.visits[entry] == 1


@thorough
@given(deterministic_mdps(), DISCOUNTS, SEEDS, st.data())
def test_proposition_4_each_round_over_all_pairs_shrinks_the_error_by_the_discount(mdp, discount, seed, data):
    # A round ends when every pair of pairs has been drawn since the last one. Samples come in any order, so this
    # bound on the whole path is what proves almost sure convergence: under coverage rounds never stop coming.
    operator = bellman(mdp, discount=discount, **data.draw(own_terms(mdp)))
    rng = np.random.default_rng(seed)
    limit, start = solve(operator), random_start(mdp, rng)
    first, second = draw_steps(mdp, 4096, rng), draw_steps(mdp, 4096, rng)
    shape = start.shape
    entries = np.ravel_multi_index((first.states, first.actions, second.states, second.actions), shape)
    rounds, missing = 0, set(range(start.size))
    for entry in entries:
        missing.discard(int(entry))
        if not missing:
            rounds, missing = rounds + 1, set(range(start.size))
    assert rounds >= 2
    reached = apply_samples(operator, start, first, second).distances
    assert gap(reached, limit) <= discount**rounds * gap(start, limit) + ROUNDING


def test_sampling_converges_to_the_fixed_point_and_iteration_meets_it_there():
    rng = np.random.default_rng(0)
    mdp = FiniteMDP.deterministic(rng.integers(4, size=(4, 3)), rng.random((4, 3)))
    operator = bellman(mdp, discount=0.9, action_weight=0.3)
    samples = draw_steps(mdp, 200_000, rng), draw_steps(mdp, 200_000, rng)
    reached = apply_samples(operator, operator.zero(), *samples).distances
    assert gap(reached, solve(operator)) < 1e-9
    assert gap(reached, iterate(operator).distances) < 2e-9


def test_without_coverage_the_entry_that_is_never_drawn_stays_wrong():
    rng = np.random.default_rng(0)
    mdp = FiniteMDP.deterministic(rng.integers(3, size=(3, 2)), rng.random((3, 2)))
    operator = bellman(mdp, discount=0.9)
    first, second = draw_steps(mdp, 50_000, rng), draw_steps(mdp, 50_000, rng)
    kept = ~((first.states == 0) & (first.actions == 0) & (second.states == 1) & (second.actions == 1))
    first, second = (Steps(*(column[kept] for column in steps)) for steps in (first, second))
    start = np.full(operator.zero().shape, 7.0)
    reached = apply_samples(operator, start, first, second).distances
    assert reached[0, 0, 1, 1] == 7.0
    assert gap(reached, solve(operator)) > 1.0


def test_samples_can_be_applied_in_installments():
    rng = np.random.default_rng(0)
    operator = independent(coin(), discount=GAMMA)
    first, second = draw_steps(coin(), 300, rng), draw_steps(coin(), 300, rng)
    at_once = apply_samples(operator, operator.zero(), first, second, decay=0.7)
    so_far = Averages(operator.zero(), np.zeros(operator.zero().shape, np.int32))
    for part in (slice(0, 100), slice(100, 300)):
        pieces = (Steps(*(column[part] for column in steps)) for steps in (first, second))
        so_far = apply_samples(operator, so_far, *pieces, decay=0.7)
    np.testing.assert_array_equal(so_far.distances, at_once.distances)
    np.testing.assert_array_equal(so_far.visits, at_once.visits)


@thorough
@given(SEEDS)
def test_no_pseudometric_is_left_alone_by_every_sample_of_an_uncertain_move(seed):
    # Two tosses from state 0 may both come to 1, which asks for d(0;0) = 0, or to 1 and 2, which asks for
    # d(0;0) = γ d(1;2). Both hold only if d(1;2) = 0, and then the sample 1 → 1, 2 → 2 asks for |1 − 0| instead.
    start = random_start(coin(), np.random.default_rng(seed))
    operator = independent(coin(), discount=GAMMA)
    to_one, to_two = one_step(0, 0, 0.0, 1), one_step(0, 0, 0.0, 2)
    stay_one, stay_two = one_step(1, 0, 1.0, 1), one_step(2, 0, 0.0, 2)
    moves = [
        gap(apply_samples(operator, start, *pair).distances, start)
        for pair in ((to_one, to_one), (to_one, to_two), (stay_one, stay_two))
    ]
    # With x = d(1;2) and γ = ½ the last two move by x/2 and |1 − x/2|: one of them is at least ½.
    assert max(moves) >= 0.5 - ROUNDING


def test_the_sampled_operator_fails_where_the_averaged_one_converges():
    # By hand, γ = ½: d(1;2) = 1/(1 − γ) = 2. Two independent tosses from 0 differ half of the time:
    # d(0;0) = γ·½·2 = ½. From 0 against 1: |0 − 1| + γ·½·2 = 3/2. From 0 against 2: 0 + γ·½·2 = ½.
    mdp, operator = coin(), independent(coin(), discount=GAMMA)
    exact = solve(operator)
    np.testing.assert_allclose(exact[:, 0, :, 0], [[0.5, 1.5, 0.5], [1.5, 0, 2], [0.5, 2, 0]], atol=1e-12)

    rng = np.random.default_rng(0)
    overwritten: list[np.ndarray] = []
    averaged: dict[int, float] = {}
    hat, mean = operator.zero(), operator.zero()
    for batch in range(1, 81):
        samples = draw_steps(mdp, 2_500, rng), draw_steps(mdp, 2_500, rng)
        hat = apply_samples(operator, hat, *samples).distances
        mean = apply_samples(operator, mean, *samples, decay=0.8)
        overwritten.append(hat[:, 0, :, 0])
        averaged[batch] = gap(mean.distances, exact)

    # F̂: the self-distance of state 0 is 0 or 1 to the end, never its mean; what is certain has converged.
    late = np.array(overwritten[40:])
    assert set(np.round(late[:, 0, 0], 9)) == {0.0, 1.0}
    assert np.ptp(late[:, 0, 1]) == pytest.approx(1.0)
    assert np.ptp(late[:, 1, 2]) == pytest.approx(0.0, abs=1e-9)
    assert min(gap(seen, exact[:, 0, :, 0]) for seen in late) >= 0.5
    # Averaging: ever closer to the exact fixed point.
    assert averaged[80] < 0.02
    assert averaged[80] < 0.3 * averaged[1]


def test_averaging_converges_with_many_actions_and_an_action_term():
    rng = np.random.default_rng(3)
    mdp = FiniteMDP(rng.random((3, 2)), rng.dirichlet(np.full(3, 0.5), size=(3, 2)))
    for pinned in (False, True):
        operator = independent(mdp, discount=0.7, action_weight=0.2, next_actions=[0.3, 0.7], pinned=pinned)
        samples = draw_steps(mdp, 1_000_000, rng), draw_steps(mdp, 1_000_000, rng)
        reached = apply_samples(operator, operator.zero(), *samples, decay=0.8).distances
        assert gap(reached, solve(operator)) < 0.02


def test_a_step_size_that_does_not_average_is_refused():
    operator = independent(coin(), discount=GAMMA)
    with pytest.raises(PloffError, match="decay must be 0"):
        apply_samples(operator, operator.zero(), one_step(0, 0, 0, 1), one_step(0, 0, 0, 2), decay=0.5)


def test_drawn_next_states_follow_the_probabilities():
    mdp = FiniteMDP(np.zeros((2, 1)), [[[0.2, 0.8]], [[1.0, 0.0]]])
    steps = draw_steps(mdp, 20_000, np.random.default_rng(0))
    from_first = steps.next_states[steps.states == 0]
    assert np.mean(from_first) == pytest.approx(0.8, abs=0.02)
    assert not steps.next_states[steps.states == 1].any()
