import numpy as np
import pytest

from ploff.theory import exact_state_distances
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
