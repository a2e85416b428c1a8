import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metric_cases import SMALL, discrete_log, ending_log, random_log, started
from ploff.metric import losses
from ploff.metric.losses import (
    MetricBatch,
    NextActions,
    draw_next_actions,
    half_differences,
    literal_pair_losses,
    phi_target,
    psi_target,
    shared_batch_losses,
)
from ploff.metric.pseudometric import MetricConfig, Pseudometric, norm


def jittered(metric, seed=1):
    """A target that differs from the network, as it does in training."""
    keys = iter(jax.random.split(jax.random.key(seed), 100))
    return jax.tree.map(lambda x: x + 0.05 * jax.random.normal(next(keys), x.shape), metric)


def with_gradient(losses_of):
    return eqx.filter_jit(eqx.filter_value_and_grad(losses_of, has_aux=True))


def pairs_of(batch):
    """The pairs that a batch's halves make, written out."""
    half = batch.rewards.shape[0] // 2
    first, second = np.repeat(np.arange(half), half), half + np.tile(np.arange(half), half)
    return jax.tree.map(lambda x: x[first], batch), jax.tree.map(lambda x: x[second], batch)


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

    class ByHand(Pseudometric):
        has_end = False

        def phi(self, observations, actions, ended=None):
            # The trained Φ is asked about the logged action 1, the target about the next action 0.
            return jnp.where(actions == 1.0, 3.0, 2.0) * observations

        def embed_states(self, observations, ended=None):
            return observations  # next observations are 4 apart, observations 1

    first, second = (
        MetricBatch(
            observations=jnp.array([[float(i)]]),
            ended=None,
            actions=jnp.array([[1.0]]),
            rewards=jnp.array([0.25 * i]),
            next_observations=jnp.array([[4.0 * i]]),
            next_ended=None,
        )
        for i in (0, 1)
    )
    draws = NextActions(jnp.zeros((1, 2, 1)), jnp.full((1, 2), 0.5))
    config = MetricConfig.paper(discount=0.5)
    by_hand = ByHand(None, None, float("inf"), ())  # pyright: ignore[reportArgumentType]
    loss, info = literal_pair_losses(by_hand, by_hand, first, second, draws, config)
    assert info["phi_loss"] == pytest.approx((3.0 - 0.25 - 0.5 * 4.0) ** 2)
    assert info["psi_loss"] == pytest.approx((1.0 - 2.0) ** 2)
    assert loss == pytest.approx(float(info["phi_loss"] + info["psi_loss"]))
    assert info["max_distance"] == pytest.approx(3.0)


@pytest.mark.parametrize("config", [SMALL, dataclasses.replace(SMALL, bounded=False, state_weight=0.0, ends=False)])
def test_shared_rows_and_actions_give_the_literal_losses_and_gradients(config):
    state, data = started(config, ending_log())
    target = jittered(state.metric.target)
    at_end = jnp.arange(config.batch_size) == 3 if config.ends else None
    batch = MetricBatch.of(data.batch(jnp.arange(config.batch_size)), at_end)
    draws = draw_next_actions(data, jnp.arange(len(data)), jax.random.key(3), config)
    first, second = pairs_of(batch)
    count = (config.batch_size // 2) ** 2
    repeated = NextActions(
        jnp.broadcast_to(draws.actions, (count, *draws.actions.shape)),
        jnp.broadcast_to(draws.weights, (count, *draws.weights.shape)),
    )

    def fast(metric):
        return shared_batch_losses(metric, target, batch, draws, config)

    def slow(metric):
        return literal_pair_losses(metric, target, first, second, repeated, config)

    (quick, quick_info), quick_gradient = with_gradient(fast)(state.metric.params)
    (literal, literal_info), literal_gradient = with_gradient(slow)(state.metric.params)
    np.testing.assert_allclose(quick, literal, atol=1e-5)
    assert quick_info.keys() == literal_info.keys()
    for name, value in quick_info.items():
        np.testing.assert_allclose(value, literal_info[name], atol=1e-5)
    for a, b in zip(jax.tree.leaves(quick_gradient), jax.tree.leaves(literal_gradient), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_over_many_draws_the_estimators_agree_within_their_errors():
    config = dataclasses.replace(SMALL, next_actions="uniform")
    literal = dataclasses.replace(config, estimator="literal")
    state, data = started(config)
    rows = jnp.arange(len(data))
    target = jittered(state.metric.target)

    def draws_of(losses_of, config):
        def one(key):
            gradient, info = eqx.filter_grad(losses_of, has_aux=True)(
                state.metric.params, target, data, rows, key, config
            )
            return (
                info["phi_loss"],
                info["psi_loss"],
                gradient.pair_encoder.rest.layers[-1].weight,
                gradient.state_encoder.joint.layers[-1].weight,
            )

        return jax.lax.map(one, jax.random.split(jax.random.key(5), 1500))

    for fast, slow in zip(
        draws_of(losses.shared_losses, config),
        draws_of(losses.literal_losses, literal),
        strict=True,
    ):
        error = jnp.sqrt(jnp.var(fast, axis=0) / len(fast) + jnp.var(slow, axis=0) / len(slow))
        deviations = np.abs((fast.mean(0) - slow.mean(0)) / jnp.maximum(error, 1e-9))
        assert np.mean(deviations < 3) > 0.97  # of a normal distribution, 0.997 are


def test_discrete_next_actions_are_summed_exactly():
    data = discrete_log()
    uniform = draw_next_actions(data, jnp.arange(200), jax.random.key(0), MetricConfig(next_actions="uniform"))
    np.testing.assert_allclose(uniform.weights, np.full(3, 1 / 3), rtol=1e-6)
    np.testing.assert_array_equal(uniform.actions, np.eye(3))
    logged = draw_next_actions(data, jnp.arange(200), jax.random.key(0), MetricConfig(next_actions="log"))
    np.testing.assert_allclose(logged.weights, np.bincount(np.asarray(data.actions), minlength=3) / 200, rtol=1e-6)


def test_next_actions_from_the_log_are_logged_and_uniform_ones_fill_the_box():
    data = random_log()
    rows = jnp.arange(10)
    drawn = draw_next_actions(
        data, rows, jax.random.key(0), MetricConfig(next_actions="log", num_next_actions=50)
    ).actions
    logged = {tuple(a) for a in np.asarray(data.actions[:10])}
    assert {tuple(a) for a in np.asarray(drawn)} <= logged
    uniform = draw_next_actions(
        data, rows, jax.random.key(0), MetricConfig(next_actions="uniform", num_next_actions=500)
    ).actions
    assert np.abs(uniform).max() <= 1
    assert np.abs(uniform).max() > 0.95


def test_half_differences_are_those_of_a_loop():
    x = jax.random.normal(jax.random.key(0), (3, 8, 2))
    got = half_differences(x)
    for n, i, j in np.ndindex(3, 4, 4):
        np.testing.assert_array_equal(got[n, i, j], x[n, i] - x[n, 4 + j])


def test_no_gradient_enters_the_targets():
    state, data = started()
    rows = jnp.arange(len(data))

    def of_target(target):
        return losses.shared_losses(state.metric.params, target, data, rows, jax.random.key(0), SMALL)[0]

    for gradient in jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(of_target))(state.metric.target)):
        assert not np.any(gradient)


def test_the_gradient_is_finite_where_the_distance_is_zero():
    assert np.all(np.isfinite(jax.grad(lambda x: norm(x))(jnp.zeros(4))))
    state, data = started()
    one = jax.tree.map(lambda x: jnp.repeat(x[:1], SMALL.batch_size, axis=0), data.batch(jnp.arange(2)))
    same = MetricBatch.of(one, None)
    draws = draw_next_actions(data, jnp.arange(10), jax.random.key(0), SMALL)
    gradient = eqx.filter_grad(lambda m: shared_batch_losses(m, state.metric.target, same, draws, SMALL)[0])(
        state.metric.params
    )
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
