"""Choices among many actions per state, against one action at a time."""

import jax
import numpy as np

from agent_cases import OBSERVATIONS, SPACE
from ploff.agents.networks import DoubleCritic, HiddenLayers
from ploff.agents.sampled_actions import best_action, soft_clipped_double_q


def test_samples_are_valued_as_if_one_by_one():
    critics = DoubleCritic.init(jax.random.key(0), (2,), SPACE, HiddenLayers((8, 8)))
    actions = jax.random.normal(jax.random.key(3), (4, 5, 2))
    q1 = np.stack([critics.q1(OBSERVATIONS, row) for row in actions])
    q2 = np.stack([critics.q2(OBSERVATIONS, row) for row in actions])
    np.testing.assert_allclose(critics.q1(OBSERVATIONS, actions), q1, atol=1e-6)
    mixed = (0.75 * np.minimum(q1, q2) + 0.25 * np.maximum(q1, q2)).max(axis=0)
    np.testing.assert_allclose(soft_clipped_double_q(critics, OBSERVATIONS, actions, 0.75), mixed, atol=1e-6)
    chosen = np.asarray(actions)[q1.argmax(axis=0), np.arange(5)]
    np.testing.assert_array_equal(best_action(critics.q1, OBSERVATIONS, actions), chosen)
