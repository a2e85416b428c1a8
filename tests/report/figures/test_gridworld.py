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
    assert len(both.axes) == 2 * 4 + 2 * 3  # the maze, all pairs, six maps, and their color bars
    with_visits = draw_gridworld(maze, exact, learned=exact * 1.1, visits=np.ones((len(exact), 4)))
    assert len(with_visits.axes) == len(both.axes) + 4 + 2
    with pytest.raises(PloffError, match="learned distances must have shape"):
        draw_gridworld(maze, exact, learned=exact[:3])


def test_exact_learned_and_their_error_stand_beside_each_other_in_numbers():
    maze = Maze()
    exact = exact_state_distances(maze.mdp(), 0.99)
    learned = exact.copy()
    corner = maze.state_at(1, 1)
    learned[maze.goal, corner] = learned[corner, maze.goal] = exact[maze.goal, corner] - 10
    figure = draw_gridworld(maze, exact, learned)
    panels = {axis.get_title(): axis for axis in figure.axes}
    share = 10 / exact[maze.goal].sum()
    assert f"learned − exact: off by {share:.1%} on average" in panels
    titles = {
        "exact distance from the goal": "96",
        "learned distance from the goal": "86",
        f"learned − exact: off by {share:.1%} on average": "-10",
    }
    for title, written in titles.items():
        numbers = {tuple(round(x) for x in text.get_position()): text.get_text() for text in panels[title].texts}
        assert len(numbers) == len(maze.cells) - 1  # all but the goal's own
        assert numbers[1, 1] == written
    norms = [panels[title].images[0].norm for title in list(titles)[:2]]
    assert norms[0].vmax == norms[1].vmax
