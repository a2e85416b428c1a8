"""IQL and AWR: what they learn of the log's own actions, against slow references."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import KEY, advance, begin, log_for, same, tiny, to_units, toy_log
from ploff.agents import awr, iql
from ploff.transitions import UNKNOWN


def test_an_expectile_above_a_half_weighs_what_lies_above_more():
    config = tiny("iql", expectile=0.7)
    # 0.7 · 2² above, 0.3 · 1² below
    assert float(iql.expectile_loss(jnp.asarray([2.0, -1.0]), config)) == pytest.approx((2.8 + 0.3) / 2)


def test_the_value_that_minimises_the_expectile_loss_is_the_expectile():
    values = np.asarray([0.0, 1.0, 4.0])
    grid = np.linspace(0, 4, 4001)
    config = tiny("iql", expectile=0.9)
    losses = jax.vmap(lambda v: iql.expectile_loss(jnp.asarray(values) - v, config))(jnp.asarray(grid))
    best = grid[int(np.argmin(losses))]
    slope = np.where(values > best, 0.9, 0.1) * (values - best)
    assert slope.sum() == pytest.approx(0.0, abs=5e-3)


def test_iql_updates_value_actor_and_critics_as_printed():
    config, log = tiny("iql", temperature=20.0, largest_weight=1.5), log_for("iql")
    state = begin("iql", log, config)
    following, info = advance("iql", state, log, config)
    _, batch = log.draw(KEY, config.batch)
    q = np.minimum(*state.target_critics(batch.observations, batch.actions))
    above = q - np.asarray(state.value.network(batch.observations))
    expected = np.mean(np.where(above < 0, 0.3, 0.7) * above**2)
    assert float(info.value_loss) == pytest.approx(expected, rel=1e-4)

    new_value = following.value.network
    advantages = q - np.asarray(new_value(batch.observations))
    weights = np.minimum(np.exp(20.0 * advantages), 1.5)
    assert 0 < np.mean(weights == 1.5) < 1
    density = np.asarray(state.actor.network.log_density(batch.observations, batch.actions))
    assert float(info.actor_loss) == pytest.approx(-np.mean(weights * density), rel=1e-3)

    goes_on = ~np.asarray(batch.terminals)
    wanted = np.asarray(batch.rewards) + goes_on * 0.5 * np.asarray(new_value(batch.next_observations))
    values = state.critics.network(batch.observations, batch.actions)
    assert float(info.critic_loss) == pytest.approx(
        sum(float(np.mean((x - wanted) ** 2)) for x in values), rel=1e-4
    )


def test_the_actors_rate_falls_along_a_cosine():
    method = iql.actor_method(tiny("iql", actor_rate=0.1, decay_steps=2))
    state, moves = method.init(jnp.zeros(())), []
    for _ in range(3):
        change, state = method.update(jnp.ones(()), state)
        moves.append(float(change))
    np.testing.assert_allclose(moves, [-0.1, -0.05, 0.0], atol=1e-6)


traced_returns = eqx.filter_jit(awr.traced_returns)


def slow_returns(data, values, discount, trace):
    returns = np.zeros(len(data))
    for row in reversed(range(len(data))):
        if data.terminals[row]:
            returns[row] = data.rewards[row]
        elif data.successors[row] == UNKNOWN:
            returns[row] = values[row]
        else:
            following = values[data.successors[row]]
            if row + 1 < len(data) and data.successors[row] == row + 1 and not data.timeouts[row]:
                following = (1 - trace) * following + trace * returns[row + 1]
            returns[row] = data.rewards[row] + discount * following
    return returns


@pytest.mark.parametrize("trace", [0.0, 0.95, 1.0])
@pytest.mark.parametrize("logged_ends", [True, False])
def test_traced_returns_are_those_of_a_loop_over_the_log(trace, logged_ends):
    data = toy_log()
    if not logged_ends:  # what followed a timeout was not recorded
        data = dataclasses.replace(data, successors=np.where(data.timeouts, UNKNOWN, data.successors))
    values = np.random.default_rng(0).normal(size=data.num_states)
    returns = traced_returns(data.to_device(), jnp.asarray(values, jnp.float32), 0.9, jnp.asarray(trace))
    np.testing.assert_allclose(returns, slow_returns(data, values, 0.9, trace), atol=1e-4)


def test_without_a_value_the_traced_return_is_the_discounted_sum_of_rewards():
    data = toy_log()
    returns = traced_returns(data.to_device(), jnp.zeros(data.num_states), 0.9, jnp.asarray(1.0))
    assert float(returns[3]) == pytest.approx(
        float(np.sum(data.rewards[3:10] * 0.9 ** np.arange(7))), rel=1e-5
    )


def test_actions_are_weighted_by_their_standardised_advantage():
    config, log = tiny("awr", temperature=0.5, largest_weight=3.0), log_for("awr")
    value = begin("awr", log, config).value.network
    returns, weights = awr.judged(value, log, config)
    states = np.asarray(awr.state_values(value, log.data))
    np.testing.assert_allclose(states, value(log.data.states()), atol=1e-6)
    data = toy_log()
    expected = slow_returns(data, 2 * states, 0.5, 0.95)  # the network gives V (1 − γ)
    np.testing.assert_allclose(returns, expected, atol=1e-4)
    advantages = expected - 2 * states[: len(data)]
    standard = (advantages - advantages.mean()) / advantages.std()
    np.testing.assert_allclose(weights, np.minimum(np.exp(standard / 0.5), 3.0), rtol=1e-2)


def test_awr_takes_turns_between_its_critic_and_its_actor():
    config, log = tiny("awr"), log_for("awr")  # 20 steps of the critic, 60 of the actor
    start = begin("awr", log, config)
    turns = [(0, "value", True), (1, "value", False), (19, "value", False)]
    turns += [(20, "actor", True), (79, "actor", False), (80, "value", True)]
    for step, part, anew in turns:
        state = dataclasses.replace(start, step=jnp.asarray(step))
        following, info = advance("awr", state, log, config)
        for name in ("value", "actor"):
            before, after = (eqx.filter(getattr(s, name).network, eqx.is_array) for s in (state, following))
            assert same(before, after) == (name != part)
        assert (float(info.critic_loss) > 0) == (part == "value")
        assert same(state.returns, following.returns) != anew


def test_awrs_losses_are_as_printed():
    config, log = tiny("awr", outside_weight=3.0), log_for("awr")
    state = begin("awr", log, config)
    _, batch = log.draw(KEY, config.batch)
    weights = jnp.linspace(0, 3, config.batch)
    far = eqx.tree_at(lambda mean: mean.body.last.bias, state.actor.network, jnp.asarray([1.5, -0.5]))
    mean = np.asarray(far(batch.observations))
    assert (mean[:, 0] > 1).all()
    assert (np.abs(mean[:, 1]) < 1).all()
    apart = np.sum((mean - to_units(np.asarray(batch.actions))) ** 2, axis=-1)
    expected = np.mean(np.asarray(weights) * apart / (2 * 0.2**2) + 0.5 * 3.0 * (mean[:, 0] - 1) ** 2)
    assert float(awr.weighted_imitation(far, batch, weights, config)) == pytest.approx(expected, rel=1e-4)
    acted = dataclasses.replace(state, actor=dataclasses.replace(state.actor, network=far))
    unit = to_units(np.asarray(awr.act(acted, batch.observations)))
    np.testing.assert_allclose(unit, np.clip(mean, -1, 1), atol=1e-6)
    output = np.asarray(state.value.network(batch.observations))
    loss = awr.value_loss(state.value.network, batch, weights, config)
    assert float(loss) == pytest.approx(0.5 * np.mean((output - 0.5 * np.asarray(weights)) ** 2), rel=1e-4)


def test_awrs_weights_start_within_the_limits_of_its_authors():
    config, log = tiny("awr", hidden=(40, 60)), log_for("awr")
    state = begin("awr", log, config)
    for body, last in ((state.actor.network.body, 0.01), (state.value.network.body, np.sqrt(6 / 61))):
        limits = [np.sqrt(6 / 42), np.sqrt(6 / 100), last]
        for layer, limit in zip((*body.layers, body.last), limits, strict=True):
            largest = float(jnp.max(jnp.abs(layer.weight)))
            assert 0.8 * limit < largest <= limit * (1 + 1e-6)
