"""F_S: optimal transport against closed forms, bisimilar states, contraction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ploff.theory import (
    FiniteMDP,
    bisimulation,
    bisimulation_metric,
    deterministic_bisimulation,
    exact_state_distances,
    wasserstein,
)
from ploff.utils.errors import PloffError
from tabular_cases import (
    DISCOUNTS,
    ROUNDING,
    SEEDS,
    assert_pseudometric,
    deterministic_mdps,
    gap,
    random_pseudometric,
    stochastic_mdps,
)

thorough = settings(max_examples=40, deadline=None)


def test_transport_costs_by_hand():
    line = np.abs(np.arange(3.0)[:, None] - np.arange(3.0))
    assert wasserstein([1, 0, 0], [0, 0, 1], line) == pytest.approx(2)
    assert wasserstein([0.5, 0.5, 0], [0, 0.5, 0.5], line) == pytest.approx(1)  # half a unit, two steps
    assert wasserstein([0.25, 0.5, 0.25], [0, 1, 0], line) == pytest.approx(0.5)
    assert wasserstein([0.2, 0.3, 0.5], [0.2, 0.3, 0.5], line) == pytest.approx(0)


@thorough
@given(SEEDS)
def test_transport_on_a_line_is_the_area_between_the_cumulated_probabilities(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(5), size=2)
    places = np.sort(rng.random(5))
    expected = np.sum(np.abs(np.cumsum(p - q))[:-1] * np.diff(places))
    assert wasserstein(p, q, np.abs(places[:, None] - places)) == pytest.approx(expected, abs=1e-12)


def test_three_states_worked_out_by_hand():
    # x: the first action stays, the second goes to z. y: both go to z. z: both stay and pay 1. γ = ½.
    #   d(y;z) = 1 + ½ d(z;z) = 1.
    #   d(x;z) = max(1 + ½ d(x;z), 1), so d(x;z) = 2.    d(x;y) = max(½ d(x;z), 0) = 1.
    x, z = 0, 2
    mdp = FiniteMDP.deterministic([[x, z], [z, z], [z, z]], [[0, 0], [0, 0], [1, 1]])
    found = bisimulation_metric(mdp, discount=0.5, tolerance=1e-9)
    np.testing.assert_allclose(found.distances, [[0, 1, 2], [1, 0, 1], [2, 1, 0]], atol=found.error_bound)
    assert found.error_bound <= 1e-9


@thorough
@given(deterministic_mdps(), DISCOUNTS, SEEDS)
def test_where_moves_are_certain_transport_equals_the_closed_form(mdp, discount, seed):
    start = random_pseudometric(mdp.num_states, np.random.default_rng(seed))
    np.testing.assert_allclose(
        bisimulation(mdp, start, discount=discount),
        deterministic_bisimulation(mdp, start, discount=discount),
        atol=1e-12,
    )


@thorough
@given(st.one_of(deterministic_mdps(), stochastic_mdps()), DISCOUNTS, SEEDS)
def test_pseudometrics_stay_pseudometrics_and_come_closer_by_the_discount(mdp, discount, seed):
    rng = np.random.default_rng(seed)
    one, other = (random_pseudometric(mdp.num_states, rng) for _ in range(2))
    swept = [bisimulation(mdp, start, discount=discount) for start in (one, other)]
    assert_pseudometric(swept[0])
    assert gap(*swept) <= discount * gap(one, other) + ROUNDING


@settings(max_examples=25, deadline=None)
@given(stochastic_mdps(), st.floats(0, 0.8), SEEDS)
def test_bisimilar_states_are_at_distance_zero(mdp, discount, seed):
    # The last state gets a twin: the same rewards and moves, and a share of whatever led to the original, another
    # share from each state and action. The two are bisimilar, and so is everything else with what it was before.
    rng = np.random.default_rng(seed)
    rewards = np.concatenate([mdp.rewards, mdp.rewards[-1:]])
    lumped = np.concatenate([mdp.probabilities, mdp.probabilities[-1:]])
    shares = rng.random(rewards.shape)
    probabilities = np.concatenate(
        [
            lumped[..., :-1],
            (lumped[..., -1] * shares)[..., None],
            (lumped[..., -1] * (1 - shares))[..., None],
        ],
        axis=-1,
    )
    before = bisimulation_metric(mdp, discount=discount, tolerance=1e-4)
    after = bisimulation_metric(FiniteMDP(rewards, probabilities), discount=discount, tolerance=1e-4)
    assert after.distances[-1, -2] <= ROUNDING
    np.testing.assert_allclose(after.distances[:-1, :-1], before.distances, atol=2e-4)


@thorough
@given(deterministic_mdps(), DISCOUNTS)
def test_the_mean_over_actions_never_exceeds_the_maximum(mdp, discount):
    found = bisimulation_metric(mdp, discount=discount, tolerance=1e-9)
    assert (exact_state_distances(mdp, discount) <= found.distances + found.error_bound + ROUNDING).all()


def test_the_closed_form_refuses_uncertain_moves():
    coin = FiniteMDP([[0.0], [1.0]], [[[0.5, 0.5]], [[0.0, 1.0]]])
    with pytest.raises(PloffError, match="this MDP is stochastic"):
        deterministic_bisimulation(coin, np.zeros((2, 2)), discount=0.9)
