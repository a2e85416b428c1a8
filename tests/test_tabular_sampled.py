"""F̂ and its averaged form: proposition 4, how F̂ fails where moves are uncertain, and what converges there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ploff.errors import PloffError
from ploff.tabular import (
    Averages,
    FiniteMDP,
    Steps,
    apply_samples,
    bellman,
    bisimulation_metric,
    draw_steps,
    independent,
    iterate,
    linear,
    solve,
)
from tabular_cases import (
    DISCOUNTS,
    ROUNDING,
    SEEDS,
    action_aware,
    assert_diffuse_metric,
    assert_pseudometric,
    deterministic_mdps,
    gap,
    random_start,
    stochastic_mdps,
)

thorough = settings(max_examples=40, deadline=None)
GAMMA = 0.5


def coin() -> FiniteMDP:
    """State 0 goes to 1 or to 2, as a coin falls. 1 and 2 stay; 1 pays 1 a step, the others nothing."""
    probabilities = np.array([[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]])
    return FiniteMDP([[0.0], [1.0], [0.0]], probabilities[:, None])


def one_step(state: int, action: int, reward: float, next_state: int) -> Steps:
    return Steps(*(np.asarray([x]) for x in (state, action, reward, next_state)))


# Certain moves.


@thorough
@given(deterministic_mdps(), DISCOUNTS, SEEDS, st.data())
def test_a_sample_moves_one_entry_to_its_sweep_and_leaves_the_rest(mdp, discount, seed, data):
    operator = bellman(mdp, discount=discount, **data.draw(action_aware(mdp.num_actions)))
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
    operator = bellman(mdp, discount=discount, **data.draw(action_aware(mdp.num_actions)))
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


def test_samples_can_be_applied_in_instalments():
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


# Uncertain moves: F̂ fails, averaging converges.


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


# What kind of distance it is.


@thorough
@given(stochastic_mdps(), DISCOUNTS, SEEDS, st.data())
def test_independent_moves_keep_all_axioms_but_zero_self_distance(mdp, discount, seed, data):
    operator = independent(mdp, discount=discount, **data.draw(action_aware(mdp.num_actions)))
    rng = np.random.default_rng(seed)
    one, other = random_start(mdp, rng), random_start(mdp, rng)
    assert_diffuse_metric(operator(one))
    assert gap(operator(one), operator(other)) <= discount * gap(one, other) + ROUNDING
    limit = solve(operator)
    assert_diffuse_metric(limit)
    assert gap(operator(limit), limit) <= ROUNDING
    assert gap(iterate(operator, one).distances, limit) <= 2e-9


@thorough
@given(stochastic_mdps(), DISCOUNTS, SEEDS, st.data())
def test_pinning_gives_a_pseudometric_below_the_diffuse_one(mdp, discount, seed, data):
    extras = data.draw(action_aware(mdp.num_actions))
    pinned = independent(mdp, discount=discount, pinned=True, **extras)
    rng = np.random.default_rng(seed)
    one, other = random_start(mdp, rng), random_start(mdp, rng)
    assert_pseudometric(pinned(one))
    assert gap(pinned(one), pinned(other)) <= discount * gap(one, other) + ROUNDING
    limit = solve(pinned)
    assert_pseudometric(limit)
    assert gap(pinned(limit), limit) <= ROUNDING
    assert (limit <= solve(independent(mdp, discount=discount, **extras)) + ROUNDING).all()


@thorough
@given(deterministic_mdps(), DISCOUNTS)
def test_where_moves_are_certain_all_three_operators_are_one(mdp, discount):
    expected = solve(bellman(mdp, discount=discount))
    np.testing.assert_allclose(solve(independent(mdp, discount=discount)), expected, atol=ROUNDING)
    np.testing.assert_allclose(
        solve(independent(mdp, discount=discount, pinned=True)), expected, atol=ROUNDING
    )


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


def twins() -> FiniteMDP:
    """The coin, with a second state 3 that is state 0 under another name."""
    probabilities = np.zeros((4, 1, 4))
    probabilities[[0, 3], 0, 1:3] = 0.5
    probabilities[1, 0, 1] = probabilities[2, 0, 2] = 1
    return FiniteMDP([[0.0], [1.0], [0.0], [0.0]], probabilities)


def test_independent_moves_tell_twins_apart_and_bisimulation_does_not():
    # Pinned or not, two names for one behaviour are γ·½·2 = ½ apart: their tosses are independent.
    for pinned in (False, True):
        assert solve(independent(twins(), discount=GAMMA, pinned=pinned))[0, 0, 3, 0] == pytest.approx(0.5)
    assert bisimulation_metric(twins(), discount=GAMMA).distances[0, 3] == pytest.approx(0)


# What the paper's loss learns.


def embedding_fit(mdp: FiniteMDP, rows_per_state: int, width: int = 2, steps: int = 6_000) -> np.ndarray:
    """Minimises the paper's loss over all pairs of rows of a log with the MDP's own frequencies; one action.

    With one action Ψ is Φ. The embedding is a free table, so what limits it is the norm alone.
    """
    counts = np.rint(mdp.probabilities[:, 0] * rows_per_state).astype(int)
    assert (counts.sum(axis=1) == rows_per_state).all()
    states = np.repeat(np.arange(mdp.num_states), rows_per_state)
    next_states = np.concatenate([np.repeat(np.arange(mdp.num_states), row) for row in counts])
    rewards = jnp.asarray(mdp.rewards[states, 0])
    gaps = jnp.abs(rewards[:, None] - rewards)

    def distances(table):
        squared = jnp.sum(jnp.square(table[:, None] - table), axis=-1)
        return jnp.where(squared == 0, 0.0, jnp.sqrt(jnp.where(squared == 0, 1.0, squared)))

    def loss(table, targets):
        ahead = distances(targets)[next_states][:, next_states]
        return jnp.mean(jnp.square(distances(table)[states][:, states] - gaps - GAMMA * ahead))

    optimiser = optax.adam(optax.cosine_decay_schedule(0.02, steps))

    def step(carry, _):
        table, targets, optimiser_state = carry
        gradient = jax.grad(loss)(table, targets)
        change, optimiser_state = optimiser.update(gradient, optimiser_state)
        table = optax.apply_updates(table, change)
        return (table, optax.incremental_update(table, targets, 0.05), optimiser_state), None

    table = jax.random.normal(jax.random.key(0), (mdp.num_states, width))
    carry = table, table, optimiser.init(table)
    (table, _, _), _ = eqx.filter_jit(lambda carry: jax.lax.scan(step, carry, length=steps))(carry)
    return np.asarray(distances(table))


def test_on_uncertain_moves_the_loss_learns_the_pinned_fixed_point():
    # Three points with a triangle inequality always fit in the plane, so the norm itself is no obstacle here.
    mdp = FiniteMDP(
        [[0.0], [1.0], [0.3]], np.array([[0.25, 0.5, 0.25], [0.25, 0.75, 0], [0.5, 0, 0.5]])[:, None]
    )
    learned = embedding_fit(mdp, rows_per_state=4)
    pinned, diffuse = (
        solve(independent(mdp, discount=GAMMA, pinned=pinned))[:, 0, :, 0] for pinned in (True, False)
    )
    assert gap(learned, pinned) < 1e-4
    apart = ~np.eye(3, dtype=bool)
    # Not the diffuse fixed point, on distinct pairs either: a bootstrap from a state against itself reads 0.
    assert (diffuse - learned)[apart].min() > 0.02


def test_where_the_norm_cannot_hold_the_distance_the_loss_learns_a_compromise():
    # A centre and three leaves: 1 from the centre, 2 apart. No Euclidean space holds them (test_tabular).
    gamma = GAMMA
    successors = np.array([0, 0, 4, 5, 0, 6, 0])  # 0 is the centre; leaf 1 pays at once, 2 and 3 later
    rewards = np.array([0, 1, 0, 0, 1 / gamma, 0, 1 / gamma**2])
    mdp = FiniteMDP.deterministic(successors[:, None], rewards[:, None])
    exact = solve(bellman(mdp, discount=gamma))[:, 0, :, 0]
    star = np.ix_([0, 1, 2, 3], [0, 1, 2, 3])
    np.testing.assert_allclose(
        exact[star], [[0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0]], atol=1e-12
    )
    learned = embedding_fit(mdp, rows_per_state=1, width=7)
    assert 0.05 < gap(learned, exact) < 1.0
