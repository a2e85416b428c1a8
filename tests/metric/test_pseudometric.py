import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_cases import SMALL, random_log, started
from ploff.metric.pseudometric import MetricConfig, distance_bound, into_ball, norm
from ploff.metric.train import MetricTraining, learn_metric
from ploff.utils.config import structure


@given(scale=st.floats(1e-3, 1e6), radius=st.floats(0.1, 50.0))
@settings(max_examples=25, deadline=None)
def test_embeddings_never_leave_their_ball(scale, radius):
    x = scale * jax.random.normal(jax.random.key(0), (64, 8))
    assert norm(into_ball(x, radius)).max() <= radius * (1 + 1e-5)


def test_distances_stay_below_the_bound_even_for_absurd_inputs():
    state, data = started()
    huge = 1e4 * jax.random.normal(jax.random.key(0), (100, 4))
    states = state.metric.params.embed_states(huge)
    limit = distance_bound(data, SMALL)
    assert norm(states[:, None] - states[None]).max() <= limit * (1 + 1e-5)


def test_the_bound_in_numbers():
    data = random_log()
    rewards, states = np.asarray(data.rewards), np.asarray(data.observations)
    spread = rewards.max() - rewards.min()
    assert distance_bound(data, MetricConfig(discount=0.8, state_weight=0.0)) == pytest.approx(spread / 0.2, rel=1e-5)
    extent = states.max(0) - states.min(0)
    diameter = np.sqrt(np.mean(extent**2))
    assert distance_bound(data, MetricConfig(discount=0.8, state_weight=0.5)) == pytest.approx(
        (spread + 0.5 * diameter) / 0.2, rel=1e-5
    )
    scaled = data.with_unit_rewards()
    assert distance_bound(scaled, MetricConfig(discount=0.9, state_weight=0.0)) == pytest.approx(10.0, rel=1e-5)


@pytest.fixture(scope="module")
def trained():
    data = random_log()
    learned = learn_metric(
        data,
        SMALL,
        MetricTraining(steps=300, check_every=100, scan_length=100, early_stopping=False, validation_fraction=0.2),
        quiet=True,
    )
    return learned, learned.in_units_of(data)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_a_trained_metric_is_a_pseudometric(trained, seed):
    learned, data = trained
    rows = np.random.default_rng(seed).integers(0, len(data), 12)
    actions = jax.random.uniform(jax.random.key(seed), (12, 2), minval=-1, maxval=1)
    pairs = learned.metric.embed_pairs(data.states(rows), actions)
    states = learned.metric.embed_states(data.states(rows))
    for distance in (
        learned.metric.pair_distance(pairs[:, None], pairs[None]),
        learned.metric.state_distance(states[:, None], states[None]),
    ):
        d = np.asarray(distance, np.float64)
        assert np.all(np.diag(d) == 0)
        np.testing.assert_array_equal(d, d.T)
        assert np.all(d >= 0)
        assert np.all(d[:, None, :] <= d[:, :, None] + d[None, :, :] + 1e-5)


def test_the_actions_own_term_is_added_to_the_learned_distance(trained):
    learned, data = trained
    metric, state = learned.metric, data.states(np.array([0, 0]))
    actions = jnp.array([[0.5, -0.5], [-0.25, 1.0]])
    x, y = metric.embed_pairs(state, actions)
    apart = metric.phi(state, actions)
    own = np.asarray(metric.action_scale)[0] * np.sqrt(0.75**2 + 1.5**2)
    learned_part = float(norm(apart[0] - apart[1]))
    assert metric.pair_distance(x, y) == pytest.approx(np.hypot(learned_part, own), rel=1e-5)


def test_the_action_weight_is_in_units_of_the_log(trained):
    """At weight 1, the action's own term is on average as large as the learned distance."""
    learned, data = trained
    rows = np.random.default_rng(0).integers(0, len(data), (2, 4000))
    first, second = (data.batch(r) for r in rows)
    x, y = (learned.metric.embed_pairs(b.observations, b.actions) for b in (first, second))
    learned_part = norm(x[:, : SMALL.embedding_size] - y[:, : SMALL.embedding_size])
    own_part = norm(x[:, SMALL.embedding_size :] - y[:, SMALL.embedding_size :])
    assert own_part.mean() == pytest.approx(float(learned_part.mean()), rel=0.25)


def test_the_papers_preset_has_its_losses_and_draws_as_printed_if_asked():
    preset, literal = MetricConfig.paper(), MetricConfig.paper(estimator="literal")
    for config in (preset, literal):
        assert (config.next_actions, config.action_weight, config.state_weight) == ("uniform", 0.0, 0.0)
        assert not config.bounded
        assert not config.normalize_observations
        assert config.batch_size == 256
    assert (preset.estimator, preset.num_next_actions) == ("shared", MetricConfig.num_next_actions)
    assert (literal.estimator, literal.num_next_actions) == ("literal", 256)
    assert MetricConfig.paper(estimator="literal", num_next_actions=8).num_next_actions == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 1.0}, "discount must lie in"),
        ({"action_weight": -1.0}, "action_weight must not be negative, got -1"),
        ({"estimator": "fast"}, "estimator is one of shared, literal, got 'fast'"),
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": 7}, "even"),
        ({"tau": 0.0}, "tau"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        structure(MetricConfig, change, "setting")
