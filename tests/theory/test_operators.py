"""F and F_w: propositions 1 to 3, the kinds of distance that they lead to, and numbers worked out by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ploff.theory import (
    FiniteMDP,
    bellman,
    bisimulation_metric,
    exact_state_distances,
    independent,
    iterate,
    over_shared_actions,
    solve,
)
from ploff.utils.errors import PloffError
from tabular_cases import (
    DISCOUNTS,
    GAMMA,
    ROUNDING,
    SEEDS,
    assert_diffuse_metric,
    assert_pseudometric,
    deterministic_mdps,
    gap,
    operators,
    own_terms,
    random_start,
    stochastic_mdps,
    three_states,
)

thorough = settings(max_examples=60, deadline=None)
less_thorough = settings(max_examples=40, deadline=None)


def test_the_action_aware_distance_of_three_states_by_hand():
    # With ρ = (3/4, 1/4):  D(x,z) = 3/4 (1 + D(x,z)/2) + 1/4 = 1 + 3/8 D(x,z), so D(x,z) = 8/5.
    # With w = 0.1 and one-hot actions, different actions are 0.1·√2 further apart, equal ones not at all.
    mdp, (x, y, z) = three_states()
    d = solve(bellman(mdp, discount=0.5, action_weight=0.1, next_actions=[0.75, 0.25]))
    assert d[x, 0, z, 0] == pytest.approx(1 + (8 / 5) / 2)
    assert d[x, 0, z, 1] == pytest.approx(1 + (8 / 5) / 2 + 0.1 * np.sqrt(2))
    assert d[x, 1, y, 0] == pytest.approx(0.1 * np.sqrt(2))


def test_the_distance_with_a_term_of_the_states_by_hand():
    # v = 1 and x 0.5 from z: D(x,z) = 3/4 (1.5 + D(x,z)/2) + 1/4 (1.5) = 1.5 + 3/8 D(x,z), so D(x,z) = 2.4.
    mdp, (x, _, z) = three_states()
    states = np.array([[0, 0, 0.5], [0, 0, 0.5], [0.5, 0.5, 0]])
    operator = bellman(mdp, discount=0.5, state_weight=1.0, state_distances=states, next_actions=[0.75, 0.25])
    assert solve(operator)[x, 0, z, 0] == pytest.approx(1.5 + 2.4 / 2)
    assert solve(operator)[x, 1, z, 0] == pytest.approx(1.5)


@thorough
@given(operators(), SEEDS)
def test_a_sweep_agrees_with_the_definition_entry_by_entry(operator, seed):
    mdp, rho = operator.mdp, operator.next_actions
    d = np.random.default_rng(seed).random(operator.zero().shape)
    expected = operator.zero()
    for s, a, t, b in np.ndindex(expected.shape):
        after = [d[mdp.successors[s, a], u, mdp.successors[t, b], u] for u in range(mdp.num_actions)]
        expected[s, a, t, b] = abs(mdp.rewards[s, a] - mdp.rewards[t, b])
        expected[s, a, t, b] += operator.state_costs[s, t] + operator.action_costs[a, b]
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


def test_a_coarser_tolerance_takes_fewer_sweeps():
    operator = bellman(three_states()[0], discount=0.9)
    fine, coarse = iterate(operator, tolerance=1e-9), iterate(operator, tolerance=1e-2)
    assert coarse.sweeps < fine.sweeps
    assert gap(coarse.distances, fine.distances) > 1e-9  # so the bound has something to bound


@thorough
@given(operators())
def test_the_action_term_is_paid_once_and_never_accumulates(operator):
    states = {"state_weight": 1.0, "state_distances": operator.state_costs}
    plain = bellman(operator.mdp, discount=float(operator.discount), next_actions=operator.next_actions, **states)
    np.testing.assert_allclose(solve(operator), solve(plain) + operator.action_costs[:, None, :], atol=ROUNDING)
    assert solve(operator).max() <= operator.bound + ROUNDING


@thorough
@given(operators())
def test_the_square_root_of_the_distance_is_euclidean(operator):
    # d* sums |differences of rewards|, so it is an ℓ₁ distance. The root of one embeds in Euclidean
    # space: the doubly centered −d*/2 has no negative eigenvalue (Schoenberg).
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
    centering = np.eye(len(squared)) - 1 / len(squared)
    return float(np.linalg.eigvalsh(-centering @ squared @ centering / 2)[0])


def test_distances_are_in_double_precision_and_leave_jax_as_it_was():
    mdp, _ = three_states()
    assert solve(bellman(mdp, discount=0.9)).dtype == np.float64
    assert iterate(bellman(mdp, discount=0.9)).distances.dtype == np.float64
    assert jax.numpy.zeros(1).dtype == np.float32


@thorough
@given(st.one_of(deterministic_mdps(), stochastic_mdps()), SEEDS)
def test_the_mean_over_shared_actions_pairs_each_action_with_itself(mdp, seed):
    rng = np.random.default_rng(seed)
    distances, rho = random_start(mdp, rng), rng.dirichlet(np.ones(mdp.num_actions))
    s, t = rng.integers(mdp.num_states, size=2)
    expected = sum(rho[u] * distances[s, u, t, u] for u in range(mdp.num_actions))
    assert over_shared_actions(distances, rho)[s, t] == pytest.approx(expected)


def test_wrong_input_is_refused_in_one_line():
    mdp, _ = three_states()
    toss = FiniteMDP([[0.0], [1.0]], [[[0.5, 0.5]], [[0.0, 1.0]]])
    with pytest.raises(PloffError, match="this one is stochastic"):
        bellman(toss, discount=0.9)
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


@less_thorough
@given(stochastic_mdps(), DISCOUNTS, SEEDS, st.data())
def test_independent_moves_keep_all_axioms_but_zero_self_distance(mdp, discount, seed, data):
    operator = independent(mdp, discount=discount, **data.draw(own_terms(mdp)))
    rng = np.random.default_rng(seed)
    one, other = random_start(mdp, rng), random_start(mdp, rng)
    assert_diffuse_metric(operator(one))
    assert gap(operator(one), operator(other)) <= discount * gap(one, other) + ROUNDING
    limit = solve(operator)
    assert_diffuse_metric(limit)
    assert gap(operator(limit), limit) <= ROUNDING
    assert gap(iterate(operator, one).distances, limit) <= 2e-9


@less_thorough
@given(stochastic_mdps(), DISCOUNTS, SEEDS, st.data())
def test_pinning_gives_a_pseudometric_below_the_diffuse_one(mdp, discount, seed, data):
    extras = data.draw(own_terms(mdp))
    pinned = independent(mdp, discount=discount, pinned=True, **extras)
    rng = np.random.default_rng(seed)
    one, other = random_start(mdp, rng), random_start(mdp, rng)
    assert_pseudometric(pinned(one))
    assert gap(pinned(one), pinned(other)) <= discount * gap(one, other) + ROUNDING
    limit = solve(pinned)
    assert_pseudometric(limit)
    assert gap(pinned(limit), limit) <= ROUNDING
    assert (limit <= solve(independent(mdp, discount=discount, **extras)) + ROUNDING).all()


@less_thorough
@given(deterministic_mdps(), DISCOUNTS)
def test_where_moves_are_certain_all_three_operators_are_one(mdp, discount):
    expected = solve(bellman(mdp, discount=discount))
    np.testing.assert_allclose(solve(independent(mdp, discount=discount)), expected, atol=ROUNDING)
    np.testing.assert_allclose(solve(independent(mdp, discount=discount, pinned=True)), expected, atol=ROUNDING)


def twins() -> FiniteMDP:
    """The coin, with a second state 3 that is state 0 under another name."""
    probabilities = np.zeros((4, 1, 4))
    probabilities[[0, 3], 0, 1:3] = 0.5
    probabilities[1, 0, 1] = probabilities[2, 0, 2] = 1
    return FiniteMDP([[0.0], [1.0], [0.0], [0.0]], probabilities)


def test_independent_moves_tell_twins_apart_and_bisimulation_does_not():
    # Pinned or not, two names for one behavior are γ·½·2 = ½ apart: their tosses are independent.
    for pinned in (False, True):
        assert solve(independent(twins(), discount=GAMMA, pinned=pinned))[0, 0, 3, 0] == pytest.approx(0.5)
    assert bisimulation_metric(twins(), discount=GAMMA).distances[0, 3] == pytest.approx(0)


def embedding_fit(mdp: FiniteMDP, rows_per_state: int, width: int = 2, steps: int = 6_000) -> np.ndarray:
    """Minimizes the paper's loss over all pairs of rows of a log with the MDP's own frequencies; one action.

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

    optimizer = optax.adam(optax.cosine_decay_schedule(0.02, steps))

    def step(carry, _):
        table, targets, optimizer_state = carry
        gradient = jax.grad(loss)(table, targets)
        change, optimizer_state = optimizer.update(gradient, optimizer_state)
        table = optax.apply_updates(table, change)
        return (table, optax.incremental_update(table, targets, 0.05), optimizer_state), None

    table = jax.random.normal(jax.random.key(0), (mdp.num_states, width))
    carry = table, table, optimizer.init(table)
    (table, _, _), _ = eqx.filter_jit(lambda carry: jax.lax.scan(step, carry, length=steps))(carry)
    return np.asarray(distances(table))


def test_on_uncertain_moves_the_loss_learns_the_pinned_fixed_point():
    # Three points with a triangle inequality always fit in the plane, so the norm itself is no obstacle here.
    mdp = FiniteMDP([[0.0], [1.0], [0.3]], np.array([[0.25, 0.5, 0.25], [0.25, 0.75, 0], [0.5, 0, 0.5]])[:, None])
    learned = embedding_fit(mdp, rows_per_state=4)
    pinned, diffuse = (solve(independent(mdp, discount=GAMMA, pinned=pinned))[:, 0, :, 0] for pinned in (True, False))
    assert gap(learned, pinned) < 1e-4
    apart = ~np.eye(3, dtype=bool)
    # Not the diffuse fixed point, on distinct pairs either: a bootstrap from a state against itself reads 0.
    assert (diffuse - learned)[apart].min() > 0.02


def test_where_the_norm_cannot_hold_the_distance_the_loss_learns_a_compromise():
    # A center and three leaves: 1 from the center, 2 apart. No Euclidean space holds them (see above).
    gamma = GAMMA
    successors = np.array([0, 0, 4, 5, 0, 6, 0])  # 0 is the center; leaf 1 pays at once, 2 and 3 later
    rewards = np.array([0, 1, 0, 0, 1 / gamma, 0, 1 / gamma**2])
    mdp = FiniteMDP.deterministic(successors[:, None], rewards[:, None])
    exact = solve(bellman(mdp, discount=gamma))[:, 0, :, 0]
    star = np.ix_([0, 1, 2, 3], [0, 1, 2, 3])
    np.testing.assert_allclose(exact[star], [[0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0]], atol=1e-12)
    learned = embedding_fit(mdp, rows_per_state=1, width=7)
    assert 0.05 < gap(learned, exact) < 1.0
