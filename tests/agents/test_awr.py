"""AWR: its returns, its weights and its turns, against slow references."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import KEY, advance, begin, dataset_for, same, tiny, to_units, toy_log
from ploff.agents import awr
from ploff.transitions import UNKNOWN

lambda_returns = eqx.filter_jit(awr.lambda_returns)


def slow_returns(data, values, discount, lam):
    returns = np.zeros(len(data))
    for row in reversed(range(len(data))):
        if data.terminals[row]:
            returns[row] = data.rewards[row]
        elif data.successors[row] == UNKNOWN:
            returns[row] = values[row]
        else:
            following = values[data.successors[row]]
            if row + 1 < len(data) and data.successors[row] == row + 1 and not data.timeouts[row]:
                following = (1 - lam) * following + lam * returns[row + 1]
            returns[row] = data.rewards[row] + discount * following
    return returns


@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
@pytest.mark.parametrize("logged_ends", [True, False])
def test_lambda_returns_are_those_of_a_loop_over_the_log(lam, logged_ends):
    data = toy_log()
    if not logged_ends:  # what followed a timeout was not recorded
        data = dataclasses.replace(data, successors=np.where(data.timeouts, UNKNOWN, data.successors))
    values = np.random.default_rng(0).normal(size=data.num_states)
    returns = lambda_returns(data.to_device(), jnp.asarray(values, jnp.float32), 0.9, jnp.asarray(lam))
    np.testing.assert_allclose(returns, slow_returns(data, values, 0.9, lam), atol=1e-4)


def test_without_a_value_the_lambda_return_is_the_discounted_sum_of_rewards():
    data = toy_log()
    returns = lambda_returns(data.to_device(), jnp.zeros(data.num_states), 0.9, jnp.asarray(1.0))
    assert float(returns[3]) == pytest.approx(float(np.sum(data.rewards[3:10] * 0.9 ** np.arange(7))), rel=1e-5)


def test_actions_are_weighted_by_their_standardized_advantage():
    config, dataset = tiny("awr", temperature=0.5, max_weight=3.0), dataset_for("awr")
    value = begin("awr", dataset, config).value.params
    returns, weights = awr.returns_and_weights(value, dataset, config)
    states = np.asarray(awr.state_values(value, dataset.data))
    np.testing.assert_allclose(states, value(dataset.data.states()), atol=1e-6)
    data = toy_log()
    expected = slow_returns(data, 2 * states, 0.5, 0.95)  # the network gives V (1 − γ)
    np.testing.assert_allclose(returns, expected, atol=1e-4)
    advantages = expected - 2 * states[: len(data)]
    standardized = (advantages - advantages.mean()) / advantages.std()
    np.testing.assert_allclose(weights, np.minimum(np.exp(standardized / 0.5), 3.0), rtol=1e-2)


def test_awr_takes_turns_between_its_critic_and_its_actor():
    config, dataset = tiny("awr"), dataset_for("awr")  # 20 steps of the critic, 60 of the actor
    start = begin("awr", dataset, config)
    turns = [(0, "value", True), (1, "value", False), (19, "value", False)]
    turns += [(20, "actor", True), (79, "actor", False), (80, "value", True)]
    for step, part, anew in turns:
        state = dataclasses.replace(start, step=jnp.asarray(step))
        following, info = advance("awr", state, dataset, config)
        for name in ("value", "actor"):
            before, after = (eqx.filter(getattr(s, name).params, eqx.is_array) for s in (state, following))
            assert same(before, after) == (name != part)
        assert (float(info["critic_loss"]) > 0) == (part == "value")
        assert same(state.returns, following.returns) != anew


def test_awrs_losses_are_as_printed():
    config, dataset = tiny("awr", bound_loss_weight=3.0), dataset_for("awr")
    state = begin("awr", dataset, config)
    _, batch = dataset.sample(KEY, config.batch_size)
    weights = jnp.linspace(0, 3, config.batch_size)
    far = eqx.tree_at(lambda actor: actor.mlp.layers[-1].bias, state.actor.params, jnp.asarray([1.5, -0.5]))
    mean = np.asarray(far.forward(batch.observations))
    assert (mean[:, 0] > 1).all()
    assert (np.abs(mean[:, 1]) < 1).all()
    apart = np.sum((mean - to_units(batch.actions)) ** 2, axis=-1)
    expected = np.mean(np.asarray(weights) * apart / (2 * 0.2**2) + 0.5 * 3.0 * (mean[:, 0] - 1) ** 2)
    assert float(awr.weighted_imitation_loss(far, batch, weights, config)) == pytest.approx(expected, rel=1e-4)
    acting = dataclasses.replace(state, actor=dataclasses.replace(state.actor, params=far))
    unit = to_units(awr.policy(acting)(batch.observations))
    np.testing.assert_allclose(unit, np.clip(mean, -1, 1), atol=1e-6)
    output = np.asarray(state.value.params(batch.observations))
    loss = awr.value_loss(state.value.params, batch, weights, config)
    assert float(loss) == pytest.approx(0.5 * np.mean((output - 0.5 * np.asarray(weights)) ** 2), rel=1e-4)


def test_awrs_weights_start_within_the_limits_of_its_authors():
    config, dataset = tiny("awr", hidden_sizes=(40, 60)), dataset_for("awr")
    state = begin("awr", dataset, config)
    for mlp, last in ((state.actor.params.mlp, 0.01), (state.value.params.mlp, np.sqrt(6 / 61))):
        limits = [np.sqrt(6 / 42), np.sqrt(6 / 100), last]
        for layer, limit in zip(mlp.layers, limits, strict=True):
            largest = float(jnp.max(jnp.abs(layer.weight)))
            assert 0.8 * limit < largest <= limit * (1 + 1e-6)
