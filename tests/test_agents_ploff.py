"""PLOff's own part: what it believes of the logged pairs, and what its actor is paid for."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import advance, begin, log_for, tiny
from ploff.agents import ploff
from ploff.agents.bonus import bonus, log_weights
from ploff.agents.log import Log
from ploff.agents.ploff import PloffConfig
from ploff.errors import PloffError


def test_a_step_leaves_the_standard_scores_of_its_batch_in_the_table():
    log, config = log_for("ploff"), tiny("ploff")
    state, key = begin("ploff", log, config), jax.random.fold_in(jax.random.key(0), 0)
    following, _ = advance("ploff", state, log, config)
    rows, batch = log.draw(jax.random.split(key)[0], config.batch)
    values = np.asarray(state.critics.least(batch.observations, batch.actions))
    expected = (values - values.mean()) / values.std()
    np.testing.assert_allclose(following.believed[rows], expected, atol=1e-3)
    others = np.setdiff1d(np.arange(len(log.data)), np.asarray(rows))
    assert np.all(np.asarray(following.believed)[others] == 0)


@pytest.mark.parametrize("value_unit", ["slope", "size", "reward"])
def test_the_actors_loss_is_the_value_and_the_bonus_in_their_own_units(value_unit):
    settings = {"delay": 1, "actor_weight": 0.7, "neighbours": 3, "value_unit": value_unit}
    log, config = log_for("ploff"), tiny("ploff", **settings)
    state, key = begin("ploff", log, config), jax.random.fold_in(jax.random.key(0), 0)
    believed = jax.random.normal(jax.random.key(1), state.believed.shape)
    state = dataclasses.replace(state, believed=believed)
    following, info = advance("ploff", state, log, config)
    rows, batch = log.draw(jax.random.split(key)[0], config.batch)
    actions = state.actor(batch.observations)
    value = following.critics.first(batch.observations, actions)
    near = log.evidence.logged.neighbours[rows, :3]
    distances = (
        log.evidence.logged.distances_to(log.data.states(rows), actions, near) / log.evidence.deviation
    )
    apart = log.evidence.apart[rows, :3].astype(jnp.float32)
    weights = log_weights(believed[near], apart, config.sway, config.focus)
    later = log_weights(following.believed[near], apart, config.sway, config.focus)
    assert not np.allclose(weights, later)  # the table as this step left it is not yet in use
    earned = bonus("mean", value, distances, config.sharpness, weights)
    slopes = jax.vmap(jax.grad(lambda a, o: following.critics.first(o[None], a[None])[0]))(
        actions, batch.observations
    )
    half_range = log.data.action_space.half_range
    steepness = jnp.mean(jnp.linalg.norm(slopes * half_range, axis=-1))
    units = {
        "slope": steepness * log.evidence.deviation / log.evidence.slope,
        "size": jnp.mean(jnp.abs(value)),
        "reward": 1.0,
    }
    expected = -jnp.mean(value) / units[value_unit] - 0.7 * jnp.mean(earned)
    assert float(info.actor_loss) == pytest.approx(float(expected), rel=1e-4)
    nearest = jnp.mean(jnp.min(distances, axis=-1)) * log.evidence.deviation / log.evidence.spacing
    assert float(info.distance) == pytest.approx(float(nearest), rel=1e-4)


@pytest.mark.parametrize("steepness", [0.1, 1.0, 30.0])
def test_the_policy_moves_one_by_the_weight_deviations_however_steep_the_critic_is(steepness):
    """A linear critic against −d²/2 of one pair in plain L2: the balance lies 1/α_a deviations up the slope."""
    deviation, weight = 0.4, 5.0
    slope = jnp.full((1, 2), steepness)
    evidence = log_for("ploff-l2").evidence
    evidence = dataclasses.replace(evidence, spread=jnp.asarray(deviation * 2**0.5), slope=jnp.ones(()))
    view = ploff._View(evidence, jnp.zeros(1), PloffConfig(actor_weight=weight))
    worth = view.value_unit(jnp.ones(1), slope / evidence.logged.data.action_space.half_range)

    def loss(action):
        away = jnp.linalg.norm(action + 1e-12) / deviation
        return -jnp.sum(slope * action) / worth + weight * 0.5 * away**2

    action = jnp.zeros(2)
    for _ in range(200):
        action -= 0.1 * deviation**2 / weight * jax.grad(loss)(action)
    assert float(jnp.linalg.norm(action)) / deviation == pytest.approx(1 / weight, rel=1e-3)


def test_the_policy_is_a_moving_average_whose_memory_is_a_share_of_training():
    log = log_for("ploff")
    config = tiny("ploff", delay=2, averaging=0.5)
    state = begin("ploff", log, config)
    average = np.asarray(state.actor.body.last.weight)
    for step in range(1, 11):
        state, _ = advance("ploff", state, log, config, first=step - 1)
        if step % 2 == 0:
            actor = np.asarray(state.actor.body.last.weight)
            average = average + (actor - average) / max(1.0, 0.5 * (step // 2))
        np.testing.assert_allclose(state.policy.body.last.weight, average, rtol=1e-5, atol=1e-7)
    observations = log.data.states(jnp.arange(3))
    np.testing.assert_array_equal(ploff.act(state, observations), state.policy(observations))
    assert not np.allclose(ploff.act(state, observations), state.actor(observations))


def test_without_averaging_the_policy_is_the_actor():
    log, config = log_for("ploff"), tiny("ploff", delay=1, averaging=0.0)
    state, _ = advance("ploff", begin("ploff", log, config), log, config, steps=3)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(state.policy), jax.tree.leaves(state.actor), strict=True)
    )


def test_it_needs_evidence_and_sensible_weights():
    log, config = log_for("ploff"), tiny("ploff")
    bare = Log(log.data, log.rows)
    with pytest.raises(PloffError, match="distances to the data"):
        ploff.update(begin("ploff", log, config), bare, jax.random.key(0), config)
    for wrong in ({"sharpness": 0.0}, {"sway": -1.0}, {"focus": -1.0}, {"neighbours": 0}, {"averaging": 1.5}):
        with pytest.raises(PloffError):
            PloffConfig(**wrong)


def test_the_preset_paper_is_the_printed_algorithm():
    printed = PloffConfig.paper()
    assert (printed.bonus, printed.critic_form, printed.unit) == ("value", "paper", "learned")
    assert (printed.actor_weight, printed.critic_weight, printed.sharpness) == (5.0, 1.0, 0.5)
    assert not printed.layer_norm
    assert (printed.value_unit, printed.averaging) == ("reward", 0.0)
