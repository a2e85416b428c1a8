import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_cases import SMALL, discrete_log, random_log
from ploff import metric_learning
from ploff.metric_learning import (
    NextActions,
    draw_next_actions,
    half_differences,
    literal_pair_losses,
    phi_target,
    psi_target,
    shared_batch_losses,
)
from ploff.metric_training import MetricTraining, in_training_units, learn_metric
from ploff.pseudometric import MetricConfig, bound, into_ball, norm
from ploff.transitions import Batch

jitted_update = eqx.filter_jit(metric_learning.update)


def started(config=SMALL, data=None, seed=0):
    data = in_training_units(random_log() if data is None else data, config).to_device()
    return metric_learning.init(jax.random.key(seed), data, config), data


def jittered(metric, seed=1):
    """A target that differs from the network, as it does in training."""
    keys = iter(jax.random.split(jax.random.key(seed), 100))
    return jax.tree.map(lambda x: x + 0.05 * jax.random.normal(next(keys), x.shape), metric)


def with_gradient(losses):
    return eqx.filter_jit(eqx.filter_value_and_grad(losses, has_aux=True))


def pairs_of(batch):
    """The pairs that a batch's halves make, written out."""
    half = batch.rewards.shape[0] // 2
    first, second = np.repeat(np.arange(half), half), half + np.tile(np.arange(half), half)
    return jax.tree.map(lambda x: x[first], batch), jax.tree.map(lambda x: x[second], batch)


# The equations.


def test_the_target_of_phi_in_numbers():
    target = phi_target(
        jnp.array([0.5, 0.2]), jnp.array([2.0, 0.0]), jnp.array([1.0, 4.0]), discount=0.9, state_weight=0.1
    )
    np.testing.assert_allclose(target, [0.5 + 0.2 + 0.9, 0.2 + 3.6], rtol=1e-6)
    clipped = phi_target(
        jnp.array([0.5]), jnp.array([0.0]), jnp.array([20.0]), discount=0.9, state_weight=0.0, limit=10.0
    )
    np.testing.assert_allclose(clipped, [10.0])


def test_the_target_of_psi_is_the_weighted_mean_over_actions_clipped():
    distances = jnp.array([[1.0, 30.0], [3.0, 30.0]])  # two actions, two pairs
    np.testing.assert_allclose(psi_target(distances, jnp.array([0.25, 0.75]), limit=10.0), [2.5, 10.0])


def test_the_losses_in_numbers():
    """Two transitions whose embeddings are set by hand: Φ is 3 apart, Ψ(s) 1 apart, Ψ̄(s′) 4 apart, Φ̄(·,u) 2 apart."""

    class ByHand(eqx.Module):
        radius: float = eqx.field(static=True, default=float("inf"))

        def phi(self, observations, actions):
            # The trained Φ is asked about the logged action 1, the target about the next action 0.
            return jnp.where(actions == 1.0, 3.0, 2.0) * observations

        def embed_states(self, observations):
            return observations  # next observations are 4 apart, observations 1

    first, second = (
        Batch(
            observations=jnp.array([[float(i)]]),
            actions=jnp.array([[1.0]]),
            rewards=jnp.array([0.25 * i]),
            next_observations=jnp.array([[4.0 * i]]),
            terminals=jnp.array([False]),
        )
        for i in (0, 1)
    )
    draws = NextActions(jnp.zeros((1, 2, 1)), jnp.full((1, 2), 0.5))
    config = MetricConfig.paper(discount=0.5)
    loss, info = literal_pair_losses(ByHand(), ByHand(), first, second, draws, config)  # pyright: ignore
    assert info.loss_phi == pytest.approx((3.0 - 0.25 - 0.5 * 4.0) ** 2)
    assert info.loss_psi == pytest.approx((1.0 - 2.0) ** 2)
    assert loss == pytest.approx(float(info.loss_phi + info.loss_psi))
    assert info.largest_distance == pytest.approx(3.0)


@pytest.mark.parametrize("config", [SMALL, dataclasses.replace(SMALL, bounded=False, state_weight=0.0)])
def test_shared_rows_and_actions_give_the_literal_losses_and_gradients(config):
    state, data = started(config)
    target = jittered(state.target)
    batch = data.batch(jnp.arange(config.rows))
    draws = draw_next_actions(data, jnp.arange(len(data)), jax.random.key(3), config)
    first, second = pairs_of(batch)
    count = (config.rows // 2) ** 2
    repeated = NextActions(
        jnp.broadcast_to(draws.actions, (count, *draws.actions.shape)),
        jnp.broadcast_to(draws.weights, (count, *draws.weights.shape)),
    )

    def fast(metric):
        return shared_batch_losses(metric, target, batch, draws, config)

    def slow(metric):
        return literal_pair_losses(metric, target, first, second, repeated, config)

    (quick, quick_info), quick_gradient = with_gradient(fast)(state.metric)
    (literal, literal_info), literal_gradient = with_gradient(slow)(state.metric)
    np.testing.assert_allclose(quick, literal, atol=1e-5)
    for a, b in zip(quick_info, literal_info, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    for a, b in zip(jax.tree.leaves(quick_gradient), jax.tree.leaves(literal_gradient), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_over_many_draws_the_estimators_agree_within_their_errors():
    config = dataclasses.replace(SMALL, next_actions="uniform")
    literal = dataclasses.replace(config, estimator="literal")
    state, data = started(config)
    rows = jnp.arange(len(data))
    target = jittered(state.target)

    def draws_of(losses, config):
        def one(key):
            gradient, info = eqx.filter_grad(losses, has_aux=True)(
                state.metric, target, data, rows, key, config
            )
            return (
                info.loss_phi,
                info.loss_psi,
                gradient.pair_encoder.last.weight,
                gradient.state_encoder.last.weight,
            )

        return jax.lax.map(one, jax.random.split(jax.random.key(5), 1500))

    for fast, slow in zip(
        draws_of(metric_learning.shared_losses, config),
        draws_of(metric_learning.literal_losses, literal),
        strict=True,
    ):
        error = jnp.sqrt(jnp.var(fast, axis=0) / len(fast) + jnp.var(slow, axis=0) / len(slow))
        deviations = np.abs((fast.mean(0) - slow.mean(0)) / jnp.maximum(error, 1e-9))
        assert np.mean(deviations < 3) > 0.97  # of a normal distribution, 0.997 are


def test_discrete_next_actions_are_summed_exactly():
    data = discrete_log()
    uniform = draw_next_actions(
        data, jnp.arange(200), jax.random.key(0), MetricConfig(next_actions="uniform")
    )
    np.testing.assert_allclose(uniform.weights, np.full(3, 1 / 3), rtol=1e-6)
    np.testing.assert_array_equal(uniform.actions, np.eye(3))
    logged = draw_next_actions(data, jnp.arange(200), jax.random.key(0), MetricConfig(next_actions="log"))
    np.testing.assert_allclose(
        logged.weights, np.bincount(np.asarray(data.actions), minlength=3) / 200, rtol=1e-6
    )


def test_next_actions_from_the_log_are_logged_and_uniform_ones_fill_the_box():
    data = random_log()
    rows = jnp.arange(10)
    drawn = draw_next_actions(
        data, rows, jax.random.key(0), MetricConfig(next_actions="log", actions=50)
    ).actions
    logged = {tuple(a) for a in np.asarray(data.actions[:10])}
    assert {tuple(a) for a in np.asarray(drawn)} <= logged
    uniform = draw_next_actions(
        data, rows, jax.random.key(0), MetricConfig(next_actions="uniform", actions=500)
    ).actions
    assert np.abs(uniform).max() <= 1
    assert np.abs(uniform).max() > 0.95


def test_half_differences_are_those_of_a_loop():
    x = jax.random.normal(jax.random.key(0), (3, 8, 2))
    got = half_differences(x)
    for n, i, j in np.ndindex(3, 4, 4):
        np.testing.assert_array_equal(got[n, i, j], x[n, i] - x[n, 4 + j])


# What must never happen.


def test_no_gradient_enters_the_targets():
    state, data = started()
    rows = jnp.arange(len(data))

    def of_target(target):
        return metric_learning.shared_losses(state.metric, target, data, rows, jax.random.key(0), SMALL)[0]

    for gradient in jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(of_target))(state.target)):
        assert not np.any(gradient)


def test_the_gradient_is_finite_where_the_distance_is_zero():
    assert np.all(np.isfinite(jax.grad(lambda x: norm(x))(jnp.zeros(4))))
    state, data = started()
    same = jax.tree.map(lambda x: jnp.repeat(x[:1], SMALL.rows, axis=0), data.batch(jnp.arange(2)))
    draws = draw_next_actions(data, jnp.arange(10), jax.random.key(0), SMALL)
    gradient = eqx.filter_grad(lambda m: shared_batch_losses(m, state.target, same, draws, SMALL)[0])(
        state.metric
    )
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))


@given(scale=st.floats(1e-3, 1e6), radius=st.floats(0.1, 50.0))
@settings(max_examples=25, deadline=None)
def test_embeddings_never_leave_their_ball(scale, radius):
    x = scale * jax.random.normal(jax.random.key(0), (64, 8))
    assert norm(into_ball(x, radius)).max() <= radius * (1 + 1e-5)


def test_distances_stay_below_the_bound_even_for_absurd_inputs():
    state, data = started()
    huge = 1e4 * jax.random.normal(jax.random.key(0), (100, 4))
    states = state.metric.embed_states(huge)
    limit = bound(data, SMALL)
    assert norm(states[:, None] - states[None]).max() <= limit * (1 + 1e-5)


def test_the_bound_in_numbers():
    data = random_log()
    rewards, states = np.asarray(data.rewards), np.asarray(data.observations)
    spread = rewards.max() - rewards.min()
    assert bound(data, MetricConfig(discount=0.8, state_weight=0.0)) == pytest.approx(spread / 0.2, rel=1e-5)
    extent = states.max(0) - states.min(0)
    diameter = np.sqrt(np.mean(extent**2))
    assert bound(data, MetricConfig(discount=0.8, state_weight=0.5)) == pytest.approx(
        (spread + 0.5 * diameter) / 0.2, rel=1e-5
    )
    scaled = data.with_unit_rewards()
    assert bound(scaled, MetricConfig(discount=0.9, state_weight=0.0)) == pytest.approx(10.0, rel=1e-5)


@pytest.fixture(scope="module")
def trained():
    data = random_log()
    learned = learn_metric(
        data,
        SMALL,
        MetricTraining(steps=300, check_every=100, chunk=100, settle=False, held_out=0.2),
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
    assert metric.pair_distance(x, y) == pytest.approx(float(norm(apart[0] - apart[1])) + own, rel=1e-5)


def test_the_action_weight_is_in_units_of_the_log(trained):
    """At weight 1, the action's own term is on average as large as the learned distance."""
    learned, data = trained
    rows = np.random.default_rng(0).integers(0, len(data), (2, 4000))
    first, second = (data.batch(r) for r in rows)
    x, y = (learned.metric.embed_pairs(b.observations, b.actions) for b in (first, second))
    learned_part = norm(x[:, : SMALL.embedding] - y[:, : SMALL.embedding])
    own_part = norm(x[:, SMALL.embedding :] - y[:, SMALL.embedding :])
    assert own_part.mean() == pytest.approx(float(learned_part.mean()), rel=0.25)


def test_the_papers_preset_has_its_losses_and_draws_as_printed_if_asked():
    preset, literal = MetricConfig.paper(), MetricConfig.paper(estimator="literal")
    for config in (preset, literal):
        assert (config.next_actions, config.action_weight, config.state_weight) == ("uniform", 0.0, 0.0)
        assert not config.bounded
        assert not config.standardise
        assert config.rows == 256
    assert (preset.estimator, preset.actions) == ("shared", MetricConfig.actions)
    assert (literal.estimator, literal.actions) == ("literal", 256)
    assert MetricConfig.paper(estimator="literal", actions=8).actions == 8


# Every setting matters.


@pytest.mark.parametrize(
    "change",
    [
        {"discount": 0.5},
        {"next_actions": "uniform"},
        {"action_weight": 3.0},
        {"state_weight": 1.0},
        {"bounded": False},
        {"hidden": 16},
        {"embedding": 4},
        {"state_layers": (8,)},
        {"action_layers": (8,)},
        {"estimator": "literal"},
        {"rows": 12},
        {"actions": 1},
        {"learning_rate": 1e-2},
        {"target_rate": 0.5},
        {"standardise": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_changes_the_metric(change):
    def after_three_steps(config):
        state, data = started(config)
        for key in jax.random.split(jax.random.key(1), 3):
            state, _ = jitted_update(state, data, jnp.arange(len(data)), key, config)
        batch = data.batch(jnp.arange(4))
        seen = []
        final = metric_learning.finished(state, data.action_space, 0.8, config)
        for metric in (state.metric, final):
            pairs = metric.embed_pairs(batch.observations, batch.actions)
            states = metric.embed_states(batch.observations)
            seen += [
                metric.pair_distance(pairs[:2], pairs[2:]),
                metric.state_distance(states[:2], states[2:]),
            ]
        return np.concatenate(seen)

    assert (
        np.abs(after_three_steps(SMALL) - after_three_steps(dataclasses.replace(SMALL, **change))).max()
        > 1e-5
    )


def test_no_setting_is_left_out_above():
    parameters = test_every_setting_changes_the_metric.pytestmark[0].args[1]  # pyright: ignore
    tested = {name for change in parameters for name in change}
    assert tested == {field.name for field in dataclasses.fields(MetricConfig)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 1.0}, "discount must lie in"),
        ({"action_weight": -1.0}, "action_weight must not be negative, got -1"),
        ({"estimator": "fast"}, "estimator is one of shared, literal, got 'fast'"),
        ({"rows": 0}, "at least 1"),
        ({"rows": 7}, "even"),
        ({"target_rate": 0.0}, "target_rate"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        MetricConfig(**change)
