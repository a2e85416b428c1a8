import jax.numpy as jnp
import numpy as np
import pytest

from ploff import ActionSpace, Transitions
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining, learn_metric
from ploff.theory import FiniteMDP, exact_state_distances
from ploff.theory.gridworld import Maze, QLearningConfig, as_steps, full_coverage_log, q_learning
from ploff.theory.learned_distances import (
    count_visits,
    errors_by_visits,
    learn_distances,
    relative_error,
    state_errors,
)
from tabular_cases import SMALL_MAZE


def test_errors_and_visits_in_numbers():
    exact = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])  # mean 4/3
    learned = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    assert relative_error(learned, exact) == pytest.approx(4 / 12)
    np.testing.assert_allclose(state_errors(learned, exact), [0.5, 0.0, 0.5])
    visits = np.array([[7, 0], [30, 20], [6, 9]])
    assert errors_by_visits(learned, exact, visits) == [
        ("0", 1, pytest.approx(0.5)),
        ("5 to 9", 1, pytest.approx(0.5)),
        ("20 or more", 1, pytest.approx(0.0)),
    ]


def test_visits_are_counted_from_the_log():
    np.testing.assert_array_equal(count_visits(full_coverage_log(SMALL_MAZE)), np.ones((4, 4)))
    log = q_learning(SMALL_MAZE, QLearningConfig(episodes=3), seed=0).transitions
    steps, counts = as_steps(log), count_visits(log)
    assert counts.sum() == len(log)
    for state, action in np.ndindex(4, 4):
        assert counts[state, action] == np.sum((steps.states == state) & (steps.actions == action))


def test_distances_learned_from_every_transition_are_the_exact_ones_where_the_norm_can_hold_them():
    corridor = Maze("##### #..G# #####")  # a line, and so are its distances; a short horizon is learned soon
    exact = exact_state_distances(corridor.mdp(), 0.5)
    learned = learn_distances(full_coverage_log(corridor), 0.5, steps=1000, seed=0, quiet=True)
    assert relative_error(learned, exact) < 0.02


def test_an_end_is_learned_as_the_absorbing_state_that_the_exact_operator_makes_of_it():
    """A corridor of four states, each step worth more than the one before; the last one ends."""
    count, rewards = 4, np.array([0.0, 0.3, 0.6, 1.0])
    mdp = FiniteMDP.deterministic(
        np.minimum(np.arange(count) + 1, count - 1)[:, None], rewards[:, None], (np.arange(count) == count - 1)[:, None]
    )
    exact = exact_state_distances(mdp, 0.5)
    assert exact.shape == (count + 1, count + 1)
    log = Transitions.from_rows(
        observations=np.eye(count, dtype=np.float32),
        actions=np.zeros(count, np.int64),
        rewards=rewards.astype(np.float32),
        terminals=np.arange(count) == count - 1,
        timeouts=np.zeros(count, bool),
        action_space=ActionSpace.discrete(1),
    )
    training = MetricTraining(
        steps=3000, early_stopping=False, check_every=3000, scan_length=500, validation_fraction=0.0
    )
    errors = {}
    for ends in (True, False):
        config = MetricConfig.exact_operator(discount=0.5, tau=0.02, ends=ends)
        metric = learn_metric(log, config, training, quiet=True).metric
        states = jnp.concatenate([jnp.eye(count), jnp.zeros((1, count))])
        embedded = np.asarray(metric.embed_states(states, jnp.arange(count + 1) == count))
        learned = np.linalg.norm(embedded[:, None] - embedded[None], axis=-1)
        errors[ends] = np.abs(learned - exact)[:count, :count].mean() / exact.mean()
        if ends:
            assert relative_error(learned, exact) < 0.03
    assert errors[True] < 0.03 < errors[False]
