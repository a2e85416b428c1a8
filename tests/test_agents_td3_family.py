"""ReBRAC and PRDC: what they add to TD3, against slow references."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import KEY, advance, begin, evidence, log_for, tiny, to_units, toy_log
from ploff.agents import prdc, td3
from ploff.agents.log import Log
from ploff.errors import PloffError


def drawn(log, config, key=KEY):
    """The rows that an update with this key sees."""
    rows, batch = log.draw(jax.random.split(key)[0], config.batch)
    return np.asarray(rows), batch


def units(actions):
    return to_units(np.asarray(actions, np.float64))


def test_rebrac_subtracts_the_square_distance_to_the_next_logged_action_from_the_value():
    config = tiny("rebrac", batch=256, critic_weight=0.3)
    log, data = log_for("rebrac"), toy_log()
    state = begin("rebrac", log, config)
    _, info = advance("rebrac", state, log, config)
    rows, batch = drawn(log, config)
    actions = state.target_actor(batch.next_observations)
    noisy = td3.smoothed(actions, jax.random.split(KEY)[1], config, log.data.action_space)
    value = np.asarray(state.target_critics.least(batch.next_observations, noisy))
    wanted = np.asarray(batch.rewards, np.float64)
    for i, row in enumerate(rows):
        if data.terminals[row]:
            continue
        penalty = 0.0
        if not data.timeouts[row]:  # behind a timeout, no action was logged
            penalty = np.sum((units(actions[i]) - units(data.actions[row + 1])) ** 2)
        wanted[i] += config.discount * (value[i] - 0.3 * penalty)
    q = [np.asarray(x) for x in state.critics(batch.observations, batch.actions)]
    expected = sum(np.mean((x - wanted) ** 2) for x in q)
    assert float(info.critic_loss) == pytest.approx(expected, rel=1e-4)


def test_rebrac_weighs_imitation_against_the_value_over_its_own_size():
    config, log = tiny("rebrac"), log_for("rebrac")
    state = dataclasses.replace(begin("rebrac", log, config), step=jnp.asarray(1))  # the actor's turn
    following, info = advance("rebrac", state, log, config)
    _, batch = drawn(log, config)
    actions = state.actor(batch.observations)
    value = np.asarray(following.critics.least(batch.observations, actions))
    apart = np.sum((units(actions) - units(batch.actions)) ** 2, axis=-1)
    other = np.asarray(following.critics.first(batch.observations, actions))
    assert abs(other.mean() / np.abs(other).mean() - value.mean() / np.abs(value).mean()) > 1e-2
    expected = 0.1 * apart.mean() - value.mean() / np.abs(value).mean()
    assert float(info.actor_loss) / config.delay == pytest.approx(expected, rel=1e-4)


def prdc_log(count):
    data = toy_log(episodes=12).with_unit_rewards()
    return Log.of(data, evidence(data, "l2", count))


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_prdc_finds_the_nearest_of_all_logged_pairs_where_all_are_candidates(weight):
    log = prdc_log(120)
    config = tiny("prdc", state_weight=weight)
    rows = jnp.arange(0, 120, 7)
    unit = np.random.default_rng(0).uniform(-1, 1, (len(rows), 2))
    states = log.data.states(rows)
    near = prdc.nearest_action(log, rows, states, jnp.asarray(unit, jnp.float32), config)
    logged = units(log.data.actions)
    every = np.asarray(log.data.states(jnp.arange(120)))
    for i in range(len(rows)):
        apart = weight**2 * np.sum((every - np.asarray(states[i])) ** 2, axis=-1)
        apart += np.sum((logged - unit[i]) ** 2, axis=-1)
        np.testing.assert_allclose(near[i], logged[apart.argmin()], atol=1e-5)


def test_prdc_looks_among_the_neighbours_of_the_state_alone():
    log = prdc_log(1)  # each state's only neighbour is itself
    config = tiny("prdc")
    rows = jnp.arange(20)
    near = prdc.nearest_action(log, rows, log.data.states(rows), jnp.ones((20, 2)), config)
    np.testing.assert_allclose(near, units(log.data.actions[:20]), atol=1e-5)


def test_prdc_imitates_the_nearest_action_and_follows_the_value():
    config, log = tiny("prdc"), log_for("prdc")
    state = dataclasses.replace(begin("prdc", log, config), step=jnp.asarray(1))  # the actor's turn
    following, info = advance("prdc", state, log, config)
    rows, batch = drawn(log, config)
    actions = state.actor(batch.observations)
    unit = jnp.asarray(units(actions), jnp.float32)
    near = prdc.nearest_action(log, jnp.asarray(rows), batch.observations, unit, config)
    value = np.asarray(following.critics.first(batch.observations, actions))
    expected = np.mean((unit - near) ** 2) - config.value_weight * value.mean() / np.abs(value).mean()
    assert float(info.actor_loss) / config.delay == pytest.approx(float(expected), rel=1e-4)
    pairs = np.concatenate([batch.observations, actions], axis=-1)
    logged, spacing = np.asarray(log.evidence.logged.pairs), float(log.evidence.spacing)
    near_rows = np.asarray(log.evidence.logged.neighbours)[np.asarray(rows)]
    apart = np.linalg.norm(logged[near_rows] - pairs[:, None], axis=-1).min(axis=-1)
    assert float(info.distance) / config.delay == pytest.approx(apart.mean() / spacing, rel=1e-4)


def test_prdc_without_neighbours_in_plain_distance_is_refused():
    log = log_for("prdc")
    state, config = begin("prdc", log, tiny("prdc")), tiny("prdc")
    with pytest.raises(PloffError, match="plain L2"):
        advance("prdc", state, dataclasses.replace(log, evidence=None), config)
