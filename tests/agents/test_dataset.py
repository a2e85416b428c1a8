"""What an agent learns from: the actions that were logged, and the size of the rewards."""

import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import dataset_for, toy_log


def test_the_logged_action_of_a_state_is_known_where_one_was_taken():
    data = toy_log()
    dataset = dataset_for("rebrac")
    states = np.asarray(data.successors)[:20]  # an episode that ends in a terminal, and one in a timeout
    actions, known = dataset.logged_actions(jnp.asarray(states))
    np.testing.assert_array_equal(known, np.arange(20) % 10 != 9)
    inside = np.flatnonzero(known)
    np.testing.assert_array_equal(np.asarray(actions)[inside], data.actions[inside + 1])


def test_the_largest_reward_is_that_which_is_learned_from():
    data = toy_log()
    assert float(dataset_for("bc").max_abs_reward) == pytest.approx(1.0)
    assert float(dataset_for("cql").max_abs_reward) == pytest.approx(np.abs(data.rewards).max())
