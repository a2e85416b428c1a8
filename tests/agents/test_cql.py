"""CQL: losses over sampled actions, against slow references."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import logsumexp

from agent_cases import KEY, SPACE, advance, begin, dataset_for, slow_critic_loss, slow_target, tiny
from ploff.agents import cql
from ploff.training.train_state import TrainState


def case(**changes):
    config, dataset = tiny("cql", **changes), dataset_for("cql")
    state = dataclasses.replace(begin("cql", dataset, config), step=jnp.asarray(config.warmup_steps))
    sample_key, _, key = jax.random.split(KEY, 3)
    _, batch = dataset.sample(sample_key, config.batch_size)
    actions_key, next_key, _ = jax.random.split(key, 3)
    next_actions = state.actor.params.sample(next_key, batch.next_observations, 1).actions[0]
    gap_actions = cql.sample_gap_actions(state.actor.params, batch, actions_key, config)
    return config, dataset, state, batch, gap_actions, next_actions


def test_gap_actions_are_uniform_then_the_policys_with_their_densities():
    config, _, state, batch, gap_actions, _ = case()
    assert gap_actions.actions.shape == (30, config.batch_size, 2)
    np.testing.assert_allclose(gap_actions.log_prob[:10], 2 * np.log(0.5), rtol=1e-6)
    here = state.actor.params.log_prob(batch.observations, gap_actions.actions[10:20])
    there = state.actor.params.log_prob(batch.next_observations, gap_actions.actions[20:])
    np.testing.assert_allclose(gap_actions.log_prob[10:20], here, atol=1e-2)
    np.testing.assert_allclose(gap_actions.log_prob[20:], there, atol=1e-2)


@pytest.mark.parametrize(
    ("threshold", "states", "draws"), [(None, None, None), (0.4, None, None), (None, 3, None), (None, 3, 2)]
)
def test_the_conservative_loss_is_that_of_a_loop(threshold, states, draws):
    config, _, state, batch, gap_actions, _ = case(
        lagrange_threshold=threshold,
        cql_alpha=2.0,
        cql_temperature=0.5,
        gap_batch_size=states,
        num_gradient_actions=draws,
    )
    assert gap_actions.actions.shape == (30, states or config.batch_size, 2)
    target, alpha = np.linspace(0, 1, config.batch_size), 1.7
    loss, (td_loss, gap, _) = cql.conservative_loss(
        state.critics.params, batch, jnp.asarray(target), gap_actions, jnp.asarray(alpha), KEY, config
    )
    expected, gaps, errors = 0.0, [], []
    for critic in (state.critics.params.q1, state.critics.params.q2):
        logged = np.asarray(critic(batch.observations, batch.actions), np.float64)
        seen = batch.observations[:states]
        each = np.stack([critic(seen, actions) for actions in gap_actions.actions])
        soft = 0.5 * logsumexp(each / 0.5 - np.asarray(gap_actions.log_prob), axis=0)
        gaps.append(2.0 * np.mean(soft - logged[:states]))
        errors.append(np.mean((logged - target) ** 2))
        expected += errors[-1] + alpha * (gaps[-1] - (threshold or 0.0))
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert float(gap) == pytest.approx(np.mean(gaps), rel=1e-4)
    assert float(td_loss) == pytest.approx(sum(errors), rel=1e-4)


def test_drawn_actions_give_the_gaps_gradient_on_average():
    config, _, state, batch, gap_actions, _ = case(cql_temperature=0.025, gap_batch_size=4)
    seen = batch.observations[:4]  # a temperature at which the sum weighs values unevenly
    draws = dataclasses.replace(config, num_gradient_actions=500)

    def gradient(config, key):
        def total(critics):
            return jnp.sum(cql.soft_values(critics, seen, gap_actions, key, config))

        gradients = eqx.filter_grad(total)(state.critics.params)
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(gradients, eqx.is_array))])

    exact = gradient(config, KEY)
    drawn = np.mean([gradient(draws, jax.random.key(number)) for number in range(8)], axis=0)
    evenly = gradient(dataclasses.replace(config, cql_temperature=1e6), KEY)
    assert np.linalg.norm(drawn - exact) < 0.03 * np.linalg.norm(exact)
    assert np.linalg.norm(evenly - exact) > 0.1 * np.linalg.norm(exact)


def test_many_uniform_actions_estimate_the_integral_of_exp_q():
    config, _, state, batch, _, _ = case()
    critic, count = state.critics.params.q1, 4000
    unit = jax.random.uniform(KEY, (count, config.batch_size, 2), minval=-1, maxval=1)
    log_prob = jnp.full((count, config.batch_size), 2 * np.log(0.5))
    _, (_, gap, _) = cql.conservative_loss(
        eqx.tree_at(lambda critics: critics.q2, state.critics.params, critic),
        batch,
        jnp.zeros(config.batch_size),
        cql.GapActions(SPACE.from_unit(unit), log_prob),
        jnp.ones(()),
        KEY,
        config,
    )
    grid = np.stack(np.meshgrid(*[np.linspace(-0.99, 0.99, 40)] * 2), -1).reshape(-1, 2)
    points = SPACE.from_unit(jnp.asarray(grid, jnp.float32))
    values = np.stack([critic(batch.observations, jnp.broadcast_to(p, (config.batch_size, 2))) for p in points[::16]])
    integral = np.log(4 * np.mean(np.exp(values), axis=0))
    logged = np.asarray(critic(batch.observations, batch.actions))
    assert float(gap) == pytest.approx(config.cql_alpha * np.mean(integral + np.log(count) - logged), rel=0.02)


def test_cqls_target_is_the_policys_next_action_without_its_entropy():
    config, dataset, state, batch, _, next_actions = case()
    _, info = advance("cql", state, dataset, config)
    target = slow_target(batch, state.critics.target.min(batch.next_observations, next_actions))
    assert float(info["critic_loss"]) == pytest.approx(slow_critic_loss(state.critics.params, batch, target), rel=1e-4)


def test_cqls_actor_imitates_first_and_then_follows_the_value():
    config, dataset, state, batch, _, _ = case()
    for step in (config.warmup_steps - 1, config.warmup_steps):
        _, info = advance("cql", dataclasses.replace(state, step=jnp.asarray(step)), dataset, config)
        drawn = state.actor.params.sample(jax.random.split(KEY, 3)[1], batch.observations, 1)
        value = state.critics.params.min(batch.observations, drawn.actions[0])
        imitated = state.actor.params.log_prob(batch.observations, batch.actions)
        expected = jnp.mean(drawn.log_prob[0] - (imitated if step < config.warmup_steps else value))
        assert float(info["actor_loss"]) == pytest.approx(float(expected), rel=1e-4)


def test_the_entropys_weight_falls_where_there_is_enough_of_it():
    config, dataset, state, *_ = case()
    following, info = advance("cql", state, dataset, config)
    assert float(info["entropy"]) > -2
    assert float(following.log_temperature.params) < 0


def test_with_lagrange_the_gaps_weight_rises_above_the_threshold_and_falls_below_it():
    config = tiny("cql", lagrange_threshold=2.0)
    log_alpha = TrainState.init(jnp.zeros(()), optax.adam(config.critic_lr))
    assert float(cql.update_alpha(log_alpha, jnp.asarray(3.0), config).params) > 0
    assert float(cql.update_alpha(log_alpha, jnp.asarray(1.0), config).params) < 0
    assert cql.update_alpha(log_alpha, jnp.asarray(3.0), tiny("cql")) is log_alpha
