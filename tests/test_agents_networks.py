"""The pieces that methods share: densities, samples, the model of the log's actions."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from agent_cases import SPACE, log_for, to_box, to_units, toy_log
from ploff import agents
from ploff.agents.actor_critic import Body, Layers, Twins
from ploff.agents.gaussian import BoundedGaussian, SquashedGaussian
from ploff.agents.learner import Learner, bootstrapped
from ploff.agents.sampled import best_of, most_mixed_value
from ploff.agents.vae import LATENT_CLIP, ActionVAE, divergence, likely_latents
from ploff.transitions import Batch

KEY = jax.random.key(0)
OBSERVATIONS = jax.random.normal(jax.random.key(1), (5, 2))


@pytest.mark.parametrize("activation", ["tanh-elu", "relu"])
def test_hidden_layers_activate_as_they_are_named(activation):
    body = Body.init(KEY, 2, Layers((4, 5, 6), activation), 3)
    x = np.asarray(OBSERVATIONS)
    for index, layer in enumerate(body.layers):
        x = x @ np.asarray(layer.weight) + np.asarray(layer.bias)
        elu = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
        x = np.maximum(x, 0) if activation == "relu" else np.tanh(x) if index == 0 else elu
    expected = x @ np.asarray(body.last.weight) + np.asarray(body.last.bias)
    np.testing.assert_allclose(body(OBSERVATIONS), expected, atol=1e-6)


def test_a_method_has_the_activations_of_its_own_paper():
    own = {name: method.config().activation for name, method in agents.METHODS.items()}
    assert {name for name, kind in own.items() if kind == "tanh-elu"} == {"ploff", "ploff-l2", "td3-off"}


def squashed():
    return SquashedGaussian.init(KEY, (2,), SPACE, Layers((8, 8)))


def test_a_squashed_density_is_that_of_the_normal_one_through_the_change_of_variables():
    policy = squashed()
    drawn = policy.sample(jax.random.key(2), OBSERVATIONS, 3)
    mean, log_deviation = (np.asarray(x, np.float64) for x in policy.moments(OBSERVATIONS))
    raw = np.asarray(drawn.raw, np.float64)
    expected = stats.norm.logpdf(raw, mean, np.exp(log_deviation)) - np.log(1 - np.tanh(raw) ** 2)
    np.testing.assert_allclose(drawn.log_density, expected.sum(-1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(to_units(np.asarray(drawn.actions)), np.tanh(raw), atol=1e-5)


def test_a_squashed_density_integrates_to_one():
    policy = SquashedGaussian.init(KEY, (2,), SPACE, Layers((8, 8)))
    grid = (np.arange(200) + 0.5) / 100 - 1
    unit = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 1, 2)
    densities = jnp.exp(policy.log_density(OBSERVATIONS[:1], jnp.asarray(to_box(unit), jnp.float32)))
    assert float(jnp.sum(densities)) / 100**2 == pytest.approx(1.0, abs=0.02)


def test_the_density_of_a_sample_is_the_one_that_it_came_with():
    policy = squashed()
    drawn = policy.sample(jax.random.key(2), OBSERVATIONS, 3)
    again = policy.log_density(OBSERVATIONS, drawn.actions)
    np.testing.assert_allclose(again, drawn.log_density, atol=1e-2)
    np.testing.assert_allclose(policy.log_density_raw(OBSERVATIONS, drawn.raw), drawn.log_density, atol=1e-4)


def test_a_logged_action_on_the_edge_has_a_finite_density_and_gradient():
    edge = jnp.broadcast_to(jnp.asarray(SPACE.high), (5, 2))
    value, gradient = jax.value_and_grad(
        lambda shift: jnp.sum(squashed().log_density(OBSERVATIONS + shift, edge))
    )(0.0)
    assert np.isfinite(value)
    assert np.isfinite(gradient)


def test_a_bounded_density_is_a_normal_one_around_the_policy():
    policy = BoundedGaussian.init(KEY, (2,), SPACE, Layers((8, 8)))
    policy = BoundedGaussian(policy.mean, jnp.log(jnp.asarray([0.5, 2.0])))
    actions = to_box(np.linspace(-1, 1, 10).reshape(5, 2))
    expected = stats.norm.logpdf(
        to_units(actions), to_units(np.asarray(policy(OBSERVATIONS))), np.asarray([0.5, 2.0])
    )
    density = policy.log_density(OBSERVATIONS, jnp.asarray(actions, jnp.float32))
    np.testing.assert_allclose(density, expected.sum(-1), rtol=1e-4)


def test_samples_are_valued_as_if_one_by_one():
    critics = Twins.init(KEY, (2,), SPACE, Layers((8, 8)))
    actions = jax.random.normal(jax.random.key(3), (4, 5, 2))
    first = np.stack([critics.first(OBSERVATIONS, row) for row in actions])
    second = np.stack([critics.second(OBSERVATIONS, row) for row in actions])
    np.testing.assert_allclose(critics.first(OBSERVATIONS, actions), first, atol=1e-6)
    mixed = (0.75 * np.minimum(first, second) + 0.25 * np.maximum(first, second)).max(axis=0)
    np.testing.assert_allclose(most_mixed_value(critics, OBSERVATIONS, actions, 0.75), mixed, atol=1e-6)
    chosen = np.asarray(actions)[first.argmax(axis=0), np.arange(5)]
    np.testing.assert_array_equal(best_of(critics.first, OBSERVATIONS, actions), chosen)


def test_the_divergence_of_latents_is_that_of_the_textbook():
    np.testing.assert_allclose(divergence(jnp.zeros(2), jnp.zeros(2)), 0.0)
    # KL(N(1, 2²) ‖ N(0, 1)) = (1 + 4 − 1)/2 − log 2
    assert float(divergence(jnp.asarray(1.0), jnp.log(2.0))) == pytest.approx(2 - np.log(2))


def test_latents_are_clipped_and_proposals_are_the_same_in_every_call():
    assert float(jnp.max(jnp.abs(likely_latents(KEY, (100, 1, 4))))) == LATENT_CLIP
    vae = ActionVAE.init(KEY, (2,), SPACE, Layers((8, 8)))
    proposed = vae.propose(OBSERVATIONS, 6)
    assert proposed.shape == (6, 5, 2)
    np.testing.assert_allclose(vae.propose(OBSERVATIONS[2:3], 6)[:, 0], proposed[:, 2], atol=1e-6)


def test_only_a_terminal_ends_the_bootstrap():
    zeros = jnp.zeros((2, 1))
    batch = Batch(zeros, zeros, jnp.asarray([1.0, 1.0]), zeros, jnp.asarray([True, False]))
    np.testing.assert_allclose(bootstrapped(batch, jnp.asarray([5.0, 5.0]), 0.9), [1.0, 5.5])


def test_a_learner_descends_as_its_optimiser_says():
    method = optax.sgd(0.1)
    learner = Learner.init(jnp.asarray(3.0), method)
    moved, loss, told = learner.descend(method, lambda x: (x**2, 2 * x))
    assert (float(loss), float(told)) == (9.0, 6.0)
    assert float(moved.network) == pytest.approx(3.0 - 0.1 * 6.0)


def test_the_logged_action_of_a_state_is_known_where_one_was_taken():
    data = toy_log()
    log = log_for("rebrac")
    states = np.asarray(data.successors)[:20]  # an episode that ends in a terminal, and one in a timeout
    actions, known = log.logged_actions(jnp.asarray(states))
    np.testing.assert_array_equal(known, np.arange(20) % 10 != 9)
    inside = np.flatnonzero(known)
    np.testing.assert_array_equal(np.asarray(actions)[inside], data.actions[inside + 1])


def test_a_method_sees_rewards_as_its_own_paper_does():
    scales = {name: getattr(method.config(), "rewards", None) for name, method in agents.METHODS.items()}
    assert [scales.pop(name) for name in ("bc", "iql")] == [None, "returns"]
    assert {name for name, scale in scales.items() if scale == "unit"} == {"ploff", "ploff-l2", "td3-off"}


def test_the_largest_reward_is_that_which_is_learned_from():
    data = toy_log()
    assert float(log_for("bc").largest_reward) == pytest.approx(1.0)
    assert float(log_for("cql").largest_reward) == pytest.approx(np.abs(data.rewards).max())
