"""The gridworld as an environment, as a finite MDP and as a log."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.sparse.csgraph import shortest_path
from scipy.stats import spearmanr

from ploff.theory import Steps, apply_samples, bellman, exact_state_distances
from ploff.theory.gridworld import Gridworld, Maze, QLearningConfig, as_steps, full_coverage_log, q_learning
from ploff.utils.errors import PloffError
from tabular_cases import SMALL_MAZE

DISCOUNT = 0.9
UP, RIGHT, DOWN, LEFT = range(4)


@pytest.fixture(scope="module")
def maze() -> Maze:
    return Maze()


@pytest.fixture(scope="module")
def exact(maze: Maze) -> np.ndarray:
    return exact_state_distances(maze.mdp(), DISCOUNT)


def walking_distances(maze: Maze) -> np.ndarray:
    """Steps on the shortest way, the goal passable: what walls do to distance."""
    cells = maze.cells
    return shortest_path((np.abs(cells[:, None] - cells).sum(axis=-1) == 1).astype(float))


def test_a_small_maze_by_hand():
    # 0 G=1
    # 2 3
    mdp = SMALL_MAZE.mdp()
    assert SMALL_MAZE.goal == 1
    np.testing.assert_array_equal(mdp.successors, [[0, 1, 2, 0], [1, 1, 1, 1], [0, 3, 2, 2], [1, 3, 3, 2]])
    np.testing.assert_array_equal(mdp.rewards, [[0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]])


def test_every_cell_can_be_reached_and_the_middle_is_free(maze):
    assert np.isfinite(walking_distances(maze)).all()
    assert tuple(maze.cells[maze.center]) == (5, 5)
    assert maze.shape == (11, 11)


def test_a_wrong_drawing_is_refused():
    with pytest.raises(PloffError, match="rows of one length"):
        Maze("### ##")
    with pytest.raises(PloffError, match="one goal"):
        Maze("#.#")
    with pytest.raises(PloffError, match=r"got \['x'\]"):
        Maze("#xG")
    with pytest.raises(PloffError, match="no free cell"):
        Maze().state_at(0, 0)


def test_the_environment_keeps_gymnasiums_contract():
    check_env(Gridworld(), skip_render_check=True)
    made = gymnasium.make("ploff/Gridworld-v0")
    assert isinstance(made.unwrapped, Gridworld)


def test_fifty_steps_cut_an_episode_and_nothing_ends_it(maze):
    world = Gridworld()
    world.reset(seed=0, options={"state": maze.goal})
    flags = [world.step(UP)[2:4] for _ in range(50)]
    assert flags[:49] == [(False, False)] * 49
    assert flags[49] == (False, True)


def test_the_environment_moves_as_the_finite_mdp_does(maze):
    world, mdp, rng = Gridworld(), maze.mdp(), np.random.default_rng(0)
    _, info = world.reset(seed=1)
    for action in rng.integers(4, size=500):
        state = info["state"]
        observation, reward, _, cut, info = world.step(action)
        assert info["state"] == mdp.successors[state, action] == np.argmax(observation)
        assert observation.sum() == 1
        assert reward == mdp.rewards[state, action] == (info["state"] == maze.goal)
        if cut:
            _, info = world.reset()


def test_the_agent_is_drawn_where_it_stands():
    world = Gridworld(SMALL_MAZE)
    world.reset(options={"state": 2})
    assert world.render() == "####\n#.G#\n#@.#\n####"


def test_q_learning_finds_shortest_ways_and_logs_every_step(maze):
    run = q_learning(maze, seed=0)
    log, mdp = run.transitions, maze.mdp()
    assert len(log) == 500 * 50
    np.testing.assert_array_equal(log.episode_lengths(), 50)
    assert not log.terminals.any()
    assert log.timeouts.sum() == 500
    assert log.action_space.n == 4
    steps = as_steps(log)
    np.testing.assert_array_equal(steps.next_states, mdp.successors[steps.states, steps.actions])
    np.testing.assert_array_equal(steps.rewards, mdp.rewards[steps.states, steps.actions])
    state, walked = maze.center, 0
    while state != maze.goal and walked < 50:
        state, walked = mdp.successors[state, np.argmax(run.values[state])], walked + 1
    assert walked == walking_distances(maze)[maze.center, maze.goal]
    assert log.episode_returns()[-100:].mean() > 2 * log.episode_returns()[:20].mean()


def test_a_run_is_repeated_by_its_seed_and_read_from_its_settings():
    short = QLearningConfig(episodes=3, exploration=1.0)
    one, same, other = (q_learning(SMALL_MAZE, short, seed=seed).transitions for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.observations, same.observations)
    assert len(one) == 150
    assert not np.array_equal(one.actions, other.actions)
    # Always exploring, each action is taken about as often; greedy, the goal's way is.
    assert np.bincount(one.actions, minlength=4).min() > 20
    still = q_learning(SMALL_MAZE, QLearningConfig(episodes=3, lr=0.0), seed=0)
    assert not still.values.any()
    myopic = q_learning(SMALL_MAZE, QLearningConfig(episodes=100, discount=0.0), seed=0)
    assert myopic.values.max() == pytest.approx(1.0)


def test_the_full_log_holds_every_state_action_pair_once(maze):
    log = full_coverage_log()
    mdp, steps = maze.mdp(), as_steps(log)
    assert len(set(zip(steps.states, steps.actions, strict=True))) == len(log) == mdp.rewards.size
    np.testing.assert_array_equal(steps.next_states, mdp.successors[steps.states, steps.actions])
    np.testing.assert_array_equal(steps.rewards, mdp.rewards[steps.states, steps.actions])
    assert not log.terminals.any()
    assert log.timeouts.all()


def test_the_sampled_operator_finds_the_exact_distances_from_the_full_log(exact, maze):
    # All pairs of rows, 12 times over, in random order: at least 12 rounds, so the error is at most 0.9¹² of the
    # first one, which is at most 10.
    steps, rng = as_steps(full_coverage_log()), np.random.default_rng(0)
    operator = bellman(maze.mdp(), discount=DISCOUNT)
    pairs = np.indices((len(steps.states),) * 2).reshape(2, -1)
    reached, rounds = operator.zero(), 12
    for _ in range(rounds):
        first, second = (Steps(*(x[rows] for x in steps)) for rows in pairs[:, rng.permutation(pairs.shape[1])])
        reached = apply_samples(operator, reached, first, second).distances
    shared = np.mean([reached[:, u, :, u] for u in range(4)], axis=0)
    assert np.abs(shared - exact).max() <= DISCOUNT**rounds * 10


def test_the_distance_from_the_goal_is_what_a_random_walk_loses_on_its_way(exact, maze):
    # The goal pays 1 at every step; a walker who arrives after τ steps, at every step from the τ-th on. The difference
    # is the sum of γᵏ over k < τ − 1. E γ^τ solves h(s) = γ mean h(s′), h(goal) = 1: another system than D's.
    mdp = maze.mdp()
    walk = mdp.probabilities.mean(axis=1)
    others = np.arange(mdp.num_states) != maze.goal
    inside, arriving = walk[np.ix_(others, others)], walk[others, maze.goal]
    arrival = np.linalg.solve(np.eye(others.sum()) - DISCOUNT * inside, DISCOUNT * arriving)
    np.testing.assert_allclose(exact[maze.goal][others], (1 - arrival / DISCOUNT) / (1 - DISCOUNT), atol=1e-12)


def test_distances_respect_the_walls(exact, maze):
    from_goal = exact[maze.goal]
    goal_row, goal_column = map(int, maze.cells[maze.goal])
    behind_the_wall = maze.state_at(goal_row, goal_column - 4)
    same_room_as_far = maze.state_at(goal_row + 4, goal_column)
    # 10 is as far as can be; what is missing from it is what a random walk still collects.
    assert 10 - from_goal[same_room_as_far] > 50 * (10 - from_goal[behind_the_wall])
    # Over all states the order of distances is the order of ways to walk, not that of straight lines.
    walked = walking_distances(maze)[maze.goal]
    straight = np.linalg.norm(maze.cells - maze.cells[maze.goal], axis=1)
    assert spearmanr(from_goal, walked).statistic > 0.98
    assert spearmanr(from_goal, straight).statistic < 0.92


def test_a_long_horizon_tells_states_outside_of_the_goals_room_apart_and_a_short_one_does_not(maze):
    outside = np.array([column < 7 or row > 6 for row, column in maze.cells])
    walked = walking_distances(maze)
    for discount, apart in ((0.9, False), (0.99, True)):
        found = exact_state_distances(maze.mdp(), discount)
        for source, least in ((maze.center, 0.2), (maze.goal, 0.2)):
            others = outside & (np.arange(len(outside)) != source)
            shares = found[source, others] / found.max()
            assert bool(np.ptp(shares) > 0.02) is apart, (discount, source)
            if apart:
                assert spearmanr(found[source, others], walked[source, others]).statistic > least
