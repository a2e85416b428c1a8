"""TD3's target, its noise and its delays, against numbers made by hand."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metric_cases import random_log
from ploff.actions import ActionSpace
from ploff.agents import td3
from ploff.agents.actor_critic import Actor, Layers, Twins
from ploff.agents.log import Log
from ploff.agents.td3 import TD3Config
from ploff.errors import PloffError
from ploff.transitions import Batch

SMALL = TD3Config(batch=8, hidden=(16, 16))


class Fixed(eqx.Module):
    """A policy or a critic that says the same whatever it is asked."""

    value: jax.Array
    space: ActionSpace = eqx.field(static=True, default=ActionSpace.box([-1.0], [1.0]))

    def __call__(self, *inputs):
        return jnp.broadcast_to(self.value, (len(inputs[0]), *self.value.shape))


def a_state(first: float, second: float, action: float = 0.5) -> td3.TD3State:
    """Targets whose critics say `first` and `second`."""
    policy = Fixed(jnp.asarray([action]))
    critics = Twins(Fixed(jnp.asarray(first)), Fixed(jnp.asarray(second)))  # pyright: ignore
    return td3.TD3State(policy, critics, policy, critics, None, None, jnp.zeros((), jnp.int32))  # pyright: ignore


def a_batch(terminals: list[bool]) -> Batch:
    count = len(terminals)
    zeros = jnp.zeros((count, 2))
    return Batch(zeros, zeros[:, :1], jnp.full(count, 0.25), zeros, jnp.asarray(terminals))


def test_the_target_is_the_reward_and_the_discounted_smaller_value():
    wanted = td3.target(
        a_state(3.0, 2.0),
        a_batch([False, True]),
        jnp.arange(2),
        jax.random.key(0),
        SMALL,
        td3.discounted(0.9),
    )
    np.testing.assert_allclose(wanted, [0.25 + 0.9 * 2.0, 0.25], rtol=1e-6)


def test_a_timeout_bootstraps_and_a_terminal_does_not():
    data = random_log(seed=0)
    cut, stopped = np.flatnonzero(data.timeouts)[:2]
    data.timeouts[stopped], data.terminals[stopped] = False, True
    batch = Log.of(data).data.batch(jnp.asarray([cut, stopped]))
    policy = Fixed(jnp.zeros(data.action_space.width), data.action_space)
    state = dataclasses.replace(a_state(5.0, 5.0), actor=policy, target_actor=policy)
    wanted = td3.target(state, batch, jnp.arange(2), jax.random.key(0), SMALL, td3.discounted(0.9))
    np.testing.assert_allclose(wanted - batch.rewards, [4.5, 0.0], atol=1e-5)


def test_the_critics_loss_is_the_sum_of_both_mean_squares():
    critics = Twins(Fixed(jnp.asarray(1.0)), Fixed(jnp.asarray(3.0)))  # pyright: ignore
    loss, values = td3.critic_loss(critics, a_batch([False, False]), jnp.asarray([0.0, 2.0]))
    assert float(loss) == pytest.approx((1 + 1) / 2 + (9 + 1) / 2)
    np.testing.assert_allclose(values, [[1.0, 1.0], [3.0, 3.0]])


def test_the_targets_noise_differs_across_rows_is_clipped_and_stays_in_the_box():
    space = ActionSpace.box([0.0, -4.0], [2.0, 4.0])
    middle = space.from_unit(jnp.zeros((1_000, 2)))
    config = TD3Config(noise=0.2, noise_clip=0.3)
    unit = np.asarray(space.to_unit(td3.smoothed(middle, jax.random.key(1), config, space)))
    assert len(np.unique(unit[:, 0])) > 800
    assert np.std(unit[:, 0]) == pytest.approx(np.std(unit[:, 1]), rel=0.1)
    assert np.abs(unit).max() <= 0.3 + 1e-6
    edge = space.from_unit(jnp.ones((100, 2)))
    assert np.all(td3.smoothed(edge, jax.random.key(2), config, space) <= jnp.asarray([2.0, 4.0]))


def test_skipped_actor_steps_leave_actor_and_averages_bit_identical():
    log = Log.of(random_log(seed=1))
    state = td3.init(jax.random.key(0), log, SMALL)
    update = jax.jit(lambda s, k: td3.update(s, log, k, SMALL)[0])
    first = update(state, jax.random.key(1))
    second = update(first, jax.random.key(2))
    held = ("actor", "target_actor", "target_critics", "actor_optimiser")
    for name in held:
        assert eqx.tree_equal(getattr(first, name), getattr(state, name)), name
        assert not eqx.tree_equal(getattr(second, name), getattr(first, name)), name
    assert not eqx.tree_equal(first.critics, state.critics)


def test_the_averages_move_by_their_rate():
    log = Log.of(random_log(seed=1))
    config = dataclasses.replace(SMALL, delay=1, target_rate=0.25)
    state = td3.init(jax.random.key(0), log, config)
    following, _ = td3.update(state, log, jax.random.key(1), config)
    expected = jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, state.target_critics, following.critics)
    assert eqx.tree_equal(following.target_critics, expected, rtol=1e-5, atol=1e-6)


def test_actors_stay_in_their_box_and_critics_see_it_as_a_unit_box():
    space = ActionSpace.box([0.0, -10.0], [1.0, 30.0])
    actor = Actor.init(jax.random.key(0), (3,), space, Layers((8, 8)))
    actions = actor(100.0 * jax.random.normal(jax.random.key(1), (50, 3)))
    assert np.all(actions >= jnp.asarray([0.0, -10.0]))
    assert np.all(actions <= jnp.asarray([1.0, 30.0]))
    np.testing.assert_allclose(space.to_unit(jnp.asarray([[0.5, 10.0], [1.0, -10.0]])), [[0, 0], [1, -1]])


def test_a_tangent_has_the_functions_value_and_its_gradient():
    def function(actions):
        return jnp.sin(actions[:, 0]) * actions[:, 1] ** 2

    def inner(scale):
        return jnp.sum(function(scale * points))

    def outer(scale):
        value, slope = td3.tangent(function, scale * points)
        return jnp.sum(value), (value, slope)

    points = jnp.array([[0.3, -1.2], [2.0, 0.7], [-0.5, 0.4]])
    gradient, (value, slope) = jax.grad(outer, has_aux=True)(1.5)
    np.testing.assert_allclose(value, function(1.5 * points), rtol=1e-6)
    np.testing.assert_allclose(slope, jax.grad(lambda a: jnp.sum(function(a)))(1.5 * points), rtol=1e-6)
    assert float(gradient) == pytest.approx(float(jax.grad(inner)(1.5)), rel=1e-5)


def test_settings_that_cannot_be_meant_are_refused():
    for wrong in ({"discount": 1.0}, {"batch": 0}, {"target_rate": 0.0}, {"noise": -1.0}, {"hidden": ()}):
        with pytest.raises(PloffError):
            TD3Config(**wrong)
