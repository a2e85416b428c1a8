"""IQL: what it learns of the log's own actions, against slow references."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import KEY, advance, begin, dataset_for, slow_critic_loss, slow_target, tiny
from ploff.agents import iql


def test_an_expectile_above_a_half_weighs_what_lies_above_more():
    config = tiny("iql", expectile=0.7)
    # 0.7 · 2² above, 0.3 · 1² below
    assert float(iql.expectile_loss(jnp.asarray([2.0, -1.0]), config)) == pytest.approx((2.8 + 0.3) / 2)


def test_the_value_that_minimizes_the_expectile_loss_is_the_expectile():
    values = np.asarray([0.0, 1.0, 4.0])
    grid = np.linspace(0, 4, 4001)
    config = tiny("iql", expectile=0.9)
    losses = jax.vmap(lambda v: iql.expectile_loss(jnp.asarray(values) - v, config))(jnp.asarray(grid))
    best = grid[int(np.argmin(losses))]
    slope = np.where(values > best, 0.9, 0.1) * (values - best)
    assert slope.sum() == pytest.approx(0.0, abs=5e-3)


def test_iql_updates_value_actor_and_critics_as_printed():
    config, dataset = tiny("iql", temperature=20.0, max_weight=1.5), dataset_for("iql")
    state = begin("iql", dataset, config)
    following, info = advance("iql", state, dataset, config)
    _, batch = dataset.sample(KEY, config.batch_size)
    q = np.minimum(*state.critics.target(batch.observations, batch.actions))
    above = q - np.asarray(state.value.params(batch.observations))
    expected = np.mean(np.where(above < 0, 0.3, 0.7) * above**2)
    assert float(info["value_loss"]) == pytest.approx(expected, rel=1e-4)

    new_value = following.value.params
    advantages = q - np.asarray(new_value(batch.observations))
    weights = np.minimum(np.exp(20.0 * advantages), 1.5)
    assert 0 < np.mean(weights == 1.5) < 1
    log_prob = np.asarray(state.actor.params.log_prob(batch.observations, batch.actions))
    assert float(info["actor_loss"]) == pytest.approx(-np.mean(weights * log_prob), rel=1e-3)

    target = slow_target(batch, new_value(batch.next_observations))
    assert float(info["critic_loss"]) == pytest.approx(slow_critic_loss(state.critics.params, batch, target), rel=1e-4)


def test_the_actors_rate_falls_along_a_cosine():
    tx = iql.actor_optimizer(tiny("iql", actor_lr=0.1, lr_decay_steps=2))
    state, moves = tx.init(jnp.zeros(())), []
    for _ in range(3):
        change, state = tx.update(jnp.ones(()), state)
        moves.append(float(change))
    np.testing.assert_allclose(moves, [-0.1, -0.05, 0.0], atol=1e-6)
