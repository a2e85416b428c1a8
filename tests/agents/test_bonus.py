"""The bonuses and what the target adds, against numbers made by hand; the contraction as a property."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ploff.agents.bonus import bonus, log_density, log_weights, mean_closeness, next_value_with_bonus

Q = jnp.asarray([2.0, -1.0])
DISTANCES = jnp.asarray([[0.5, 3.0], [2.0, 1.0]])  # nearest: 0.5 and 1


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("value", [2 * math.exp(-1.0), -math.exp(-2.0)]),
        ("exp", [math.exp(-1.0), math.exp(-2.0)]),
        ("penalty", [1 - math.exp(1.0), 1 - math.exp(2.0)]),
        ("mean", [-(0.25 + 9.0) / 4, -(4.0 + 1.0) / 4]),
        (
            "density",
            [
                math.log((math.exp(-0.25) + math.exp(-9.0)) / 2) / 2,
                math.log((math.exp(-4.0) + math.exp(-1.0)) / 2) / 2,
            ],
        ),
    ],
)
def test_each_bonus_is_what_its_formula_says(form, expected):
    np.testing.assert_allclose(bonus(form, Q, DISTANCES, 2.0), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("form", "critic_form", "expected"),
    [
        ("value", "paper", 0.9 * 2 + 3 * 2 * math.exp(-1.0)),
        ("value", "contractive", 0.9 * 2 * (1 + 3 * math.exp(-1.0)) / 4),
        ("exp", "paper", 0.9 * 2 + 3 * math.exp(-1.0)),
        ("exp", "contractive", 0.9 * (2 + 3 * math.exp(-1.0))),
        ("penalty", "contractive", 0.9 * (2 + 3 * (1 - math.exp(1.0)))),
    ],
)
def test_the_next_value_is_what_its_formula_says(form, critic_form, expected):
    found = next_value_with_bonus(form, critic_form, Q[:1], DISTANCES[:1], discount=0.9, weight=3.0, beta=2.0)
    assert float(found[0]) == pytest.approx(expected, rel=1e-5)


def test_the_density_is_highest_at_the_data_and_knows_the_nearest_in_the_limit():
    assert float(log_density(jnp.zeros((1, 50)), 1.0)[0]) == pytest.approx(0.0, abs=1e-6)
    far = jnp.asarray([[30.0, 60.0]])
    assert float(log_density(far, 1.0)[0]) == pytest.approx(-450 - math.log(2), rel=1e-5)
    assert float(log_density(DISTANCES[1:], 1e4)[0]) == pytest.approx(-0.5, rel=1e-3)


def test_the_mean_is_what_the_density_becomes_as_beta_falls():
    weights = jnp.log(jnp.asarray([[0.25, 0.75], [0.5, 0.5]]))
    np.testing.assert_allclose(mean_closeness(DISTANCES[:1], weights[:1]), [-(0.25 * 0.25 + 0.75 * 9) / 2])
    np.testing.assert_allclose(log_density(DISTANCES, 1e-3, weights), mean_closeness(DISTANCES, weights), rtol=1e-2)


def test_better_pairs_and_those_of_states_more_alike_count_for_more():
    values = jnp.asarray([[1.0, 3.0], [5.0, 5.0]])  # scores −1 and 1; no deviation at all
    apart = jnp.asarray([[0.0, 0.0], [0.0, 1.0]])
    expected = np.log(
        [[1 / (1 + math.exp(4)), 1 / (1 + math.exp(-4))], [1 / (1 + math.exp(-3)), 1 / (1 + math.exp(3))]]
    )
    np.testing.assert_allclose(log_weights(values, apart, 2.0, 6.0), expected, rtol=1e-5)
    np.testing.assert_allclose(log_weights(100 * values + 7, apart, 2.0, 6.0), expected, rtol=1e-5)


def test_weights_say_which_neighbors_count():
    only_second = jnp.log(jnp.asarray([[1e-30, 1.0]]))
    assert float(log_density(DISTANCES[:1], 2.0, only_second)[0]) == pytest.approx(-4.5, rel=1e-5)
    assert float(mean_closeness(DISTANCES[:1], only_second)[0]) == pytest.approx(-4.5, rel=1e-5)


weights = st.floats(0.0, 100.0)
tables = st.lists(st.floats(-100, 100), min_size=5, max_size=5)
distances = st.lists(st.floats(0, 50), min_size=5, max_size=5)


@settings(deadline=None)  # the first example compiles
@given(
    form=st.sampled_from(["value", "exp", "penalty", "mean", "density"]),
    weight=weights,
    beta=st.floats(0.01, 1.0),
    first=tables,
    second=tables,
    d=distances,
)
def test_the_contractive_target_shrinks_the_distance_of_any_two_tables_by_the_discount(
    form, weight, beta, first, second, d
):
    discount, one, other = 0.99, jnp.asarray(first, jnp.float32), jnp.asarray(second, jnp.float32)
    near = jnp.asarray(d, jnp.float32)[:, None]
    numbers = {"discount": discount, "weight": weight, "beta": beta}
    # An additive bonus is the same for both tables: it is taken out, lest its size hide the difference.
    added = jnp.zeros(5) if form == "value" else weight * bonus(form, one, near, beta)
    backups = [
        next_value_with_bonus(form, "contractive", table, near, **numbers) - discount * added for table in (one, other)
    ]
    apart = float(jnp.max(jnp.abs(one - other)))
    rounding = 1e-6 * (100 + float(jnp.max(jnp.abs(added))))
    assert float(jnp.max(jnp.abs(backups[0] - backups[1]))) <= discount * apart + rounding


def test_the_printed_target_grows_near_the_data():
    numbers = {"discount": 0.99, "weight": 1.0, "beta": 0.5}
    low, high = (
        next_value_with_bonus("value", "paper", q, jnp.zeros((1, 1)), **numbers) for q in (jnp.zeros(1), jnp.ones(1))
    )
    assert float((high - low)[0]) == pytest.approx(1.99, rel=1e-6)
