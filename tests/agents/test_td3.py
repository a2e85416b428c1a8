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
from ploff.agents.dataset import OfflineDataset
from ploff.agents.networks import Critic, DoubleCritic
from ploff.agents.td3 import TD3Config
from ploff.training.train_state import TrainState
from ploff.transitions import Batch
from ploff.utils.errors import PloffError

SMALL = TD3Config(batch_size=8, hidden_sizes=(16, 16))

SPACE = ActionSpace.box([-1.0], [1.0])


class Fixed(Critic):
    """A policy or a critic that says the same whatever it is asked."""

    value: jax.Array

    def __init__(self, value, space=SPACE):
        self.encoder, self.mlp, self.space, self.value = None, None, space, value

    def __call__(self, *inputs):
        return jnp.broadcast_to(self.value, (len(inputs[0]), *self.value.shape))


def with_target(network) -> TrainState:
    """A network that nothing moves, and a target that equals it."""
    return TrainState(network, None, network)


def a_state(q1: float, q2: float, action: float = 0.5) -> td3.TD3State:
    """Targets whose critics say `q1` and `q2`."""
    policy = Fixed(jnp.asarray([action]))
    critics = DoubleCritic(Fixed(jnp.asarray(q1)), Fixed(jnp.asarray(q2)))
    return td3.TD3State(with_target(policy), with_target(critics), jnp.zeros((), jnp.int32))


def a_batch(terminals: list[bool]) -> Batch:
    count = len(terminals)
    zeros = jnp.zeros((count, 2))
    return Batch(zeros, zeros[:, :1], jnp.full(count, 0.25), zeros, jnp.asarray(terminals))


def discounted(value, next_states, actions):
    return 0.9 * value


def test_the_target_is_the_reward_and_the_discounted_smaller_value():
    batch = a_batch([False, True])
    target = td3.td_target(a_state(3.0, 2.0), batch, jnp.arange(2), jax.random.key(0), SMALL, discounted)
    np.testing.assert_allclose(target, [0.25 + 0.9 * 2.0, 0.25], rtol=1e-6)


def test_a_timeout_bootstraps_and_a_terminal_does_not():
    data = random_log(seed=0)
    cut, stopped = np.flatnonzero(data.timeouts)[:2]
    data.timeouts[stopped], data.terminals[stopped] = False, True
    batch = OfflineDataset.of(data).data.batch(jnp.asarray([cut, stopped]))
    policy = Fixed(jnp.zeros(data.action_space.width), data.action_space)
    state = dataclasses.replace(a_state(5.0, 5.0), actor=with_target(policy))
    target = td3.td_target(state, batch, jnp.arange(2), jax.random.key(0), SMALL, discounted)
    np.testing.assert_allclose(target - batch.rewards, [4.5, 0.0], atol=1e-5)


def test_only_a_terminal_ends_the_bootstrap():
    zeros = jnp.zeros((2, 1))
    batch = Batch(zeros, zeros, jnp.asarray([1.0, 1.0]), zeros, jnp.asarray([True, False]))
    np.testing.assert_allclose(td3.bootstrapped_target(batch, jnp.asarray([5.0, 5.0]), 0.9), [1.0, 5.5])


def test_the_critics_loss_is_the_sum_of_both_mean_squares():
    critics = DoubleCritic(Fixed(jnp.asarray(1.0)), Fixed(jnp.asarray(3.0)))
    loss, q_values = td3.critic_loss(critics, a_batch([False, False]), jnp.asarray([0.0, 2.0]))
    assert float(loss) == pytest.approx((1 + 1) / 2 + (9 + 1) / 2)
    np.testing.assert_allclose(q_values, [[1.0, 1.0], [3.0, 3.0]])


def test_the_targets_noise_differs_across_rows_is_clipped_and_stays_in_the_box():
    space = ActionSpace.box([0.0, -4.0], [2.0, 4.0])
    middle = space.from_unit(jnp.zeros((1_000, 2)))
    config = TD3Config(target_noise=0.2, target_noise_clip=0.3)
    unit = np.asarray(space.to_unit(td3.target_policy_smoothing(middle, jax.random.key(1), config, space)))
    assert len(np.unique(unit[:, 0])) > 800
    assert np.std(unit[:, 0]) == pytest.approx(np.std(unit[:, 1]), rel=0.1)
    assert np.abs(unit).max() <= 0.3 + 1e-6
    edge = space.from_unit(jnp.ones((100, 2)))
    assert np.all(td3.target_policy_smoothing(edge, jax.random.key(2), config, space) <= jnp.asarray([2.0, 4.0]))


def test_skipped_actor_steps_leave_actor_and_averages_bit_identical():
    dataset = OfflineDataset.of(random_log(seed=1))
    state = td3.init(jax.random.key(0), dataset, SMALL)
    update = jax.jit(lambda s, k: td3.update(s, dataset, k, SMALL)[0])
    first = update(state, jax.random.key(1))
    second = update(first, jax.random.key(2))
    held = {
        "actor": lambda s: s.actor.params,
        "target actor": lambda s: s.actor.target,
        "target critics": lambda s: s.critics.target,
        "actor's optimizer": lambda s: s.actor.opt_state,
    }
    for name, part in held.items():
        assert eqx.tree_equal(part(first), part(state)), name
        assert not eqx.tree_equal(part(second), part(first)), name
    assert not eqx.tree_equal(first.critics.params, state.critics.params)


def test_the_averages_move_by_their_rate():
    dataset = OfflineDataset.of(random_log(seed=1))
    config = dataclasses.replace(SMALL, policy_delay=1, tau=0.25)
    state = td3.init(jax.random.key(0), dataset, config)
    following, _ = td3.update(state, dataset, jax.random.key(1), config)
    old, new = state.critics.target, following.critics.params
    expected = jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, old, new)
    assert eqx.tree_equal(following.critics.target, expected, rtol=1e-5, atol=1e-6)


def test_a_value_comes_with_its_gradient_which_flows_to_the_actions():
    def function(actions):
        return jnp.sin(actions[:, 0]) * actions[:, 1] ** 2

    def inner(scale):
        return jnp.sum(function(scale * points))

    def outer(scale):
        value, action_grad = td3.value_and_action_grad(function, scale * points)
        return jnp.sum(value), (value, action_grad)

    points = jnp.array([[0.3, -1.2], [2.0, 0.7], [-0.5, 0.4]])
    gradient, (value, action_grad) = jax.grad(outer, has_aux=True)(1.5)
    np.testing.assert_allclose(value, function(1.5 * points), rtol=1e-6)
    np.testing.assert_allclose(action_grad, jax.grad(lambda a: jnp.sum(function(a)))(1.5 * points), rtol=1e-6)
    assert float(gradient) == pytest.approx(float(jax.grad(inner)(1.5)), rel=1e-5)


def test_settings_that_cannot_be_meant_are_refused():
    for wrong in ({"discount": 1.0}, {"batch_size": 0}, {"tau": 0.0}, {"target_noise": -1.0}, {"hidden_sizes": ()}):
        with pytest.raises(PloffError):
            TD3Config(**wrong)
