import numpy as np
import pytest

from ploff.report.figures.gridworld import draw_gridworld
from ploff.theory import exact_state_distances
from ploff.theory.gridworld import Maze
from ploff.utils.errors import PloffError


def test_the_figure_has_a_row_for_each_kind_of_distance():
    maze = Maze()
    exact = exact_state_distances(maze.mdp(), 0.9)
    assert len(draw_gridworld(maze, exact).axes) == 3 + 2  # maze, two maps, two color bars
    both = draw_gridworld(maze, exact, learned=exact * 1.1)
    titles = [axis.get_title() for axis in both.axes]
    assert "learned distance from the goal" in titles
    assert "all pairs of states" in titles
    with_visits = draw_gridworld(maze, exact, learned=exact * 1.1, visits=np.ones((len(exact), 4)))
    assert len(with_visits.axes) == len(both.axes) + 3 + 2
    with pytest.raises(PloffError, match="learned distances must have shape"):
        draw_gridworld(maze, exact, learned=exact[:3])
