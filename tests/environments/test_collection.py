"""Every final state kept, ends told from cuts, the count exact."""

import gymnasium as gym
import numpy as np
import pytest

from ploff import environments
from ploff.environments import registry
from ploff.environments.collection import collect
from ploff.transitions import UNKNOWN
from ploff.utils.errors import PloffError


class Line(gym.Env):
    """A walk along a line that starts at the seed modulo 10 and, unless it is `endless`, ends at 15."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, endless: bool = False):
        self.endless = endless

    def reset(self, *, seed=None, options=None):
        self.place = float((seed or 0) % 10)
        return np.array([self.place]), {}

    def step(self, action):
        self.place += 1.0
        over = self.place >= 15 and not self.endless
        return np.array([self.place]), float(action[0]), over, False, {}


@pytest.fixture(autouse=True)
def lines(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    environments.register("line", lambda **options: Line(**options))
    environments.register("cut-line", lambda **_: gym.wrappers.TimeLimit(Line(endless=True), 8))


def test_a_timeout_is_not_a_terminal():
    ended, cut = collect("line", transitions=100), collect("cut-line", transitions=100)
    assert ended.terminals.sum() > 5
    assert ended.timeouts[:-1].sum() == 0
    assert cut.terminals.sum() == 0
    assert np.flatnonzero(cut.timeouts).tolist() == [*range(7, 96, 8), 99]


def test_the_horizon_of_a_real_task_is_a_timeout():
    pytest.importorskip("mujoco")
    log = collect("halfcheetah", transitions=25, options={"max_episode_steps": 10})
    assert np.flatnonzero(log.timeouts).tolist() == [9, 19, 24]
    assert not log.terminals.any()


def test_a_fall_is_a_terminal_and_its_last_state_is_kept():
    pytest.importorskip("mujoco")
    log = collect("hopper", transitions=120)
    assert log.terminals.sum() >= 1
    assert not (log.terminals & log.timeouts).any()
    assert (log.successors != UNKNOWN).all()
    last = log.next_observations(np.flatnonzero(log.terminals))
    assert np.isfinite(last).all()
    assert ((last[:, 0] <= 0.7) | (np.abs(last[:, 1]) >= 0.2)).all()  # it lies on the ground, or leans too far


def test_every_successor_is_the_state_that_followed():
    log = collect("line", transitions=137)
    np.testing.assert_array_equal(log.next_observations(), log.observations[: len(log)] + 1)
    episodes = len(log.episode_ends())
    assert log.num_states == len(log) + episodes  # each episode's last state, and no state twice


def test_the_count_is_exact_and_cuts_the_last_episode():
    log = collect("line", transitions=37, seed=2)
    longer = collect("line", transitions=60, seed=2, policy=lambda states: np.zeros((len(states), 1)))
    assert len(log) == 37
    assert log.terminals[-1] or log.timeouts[-1]
    np.testing.assert_array_equal(log.observations[:37], longer.observations[:37])


def test_actions_are_logged_as_the_environment_saw_them():
    log = collect("line", transitions=20, policy=lambda states: np.full((len(states), 1), 5.0))
    assert (log.actions == 1.0).all()
    np.testing.assert_array_equal(log.rewards, log.actions[:, 0])
    assert log.actions.dtype == log.rewards.dtype == log.observations.dtype == np.float32


def test_the_same_seed_gives_the_same_log_and_another_another():
    first, again, other = (collect("line", transitions=50, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.actions, again.actions)
    np.testing.assert_array_equal(first.observations, again.observations)
    assert not np.array_equal(first.actions, other.actions)


def test_random_actions_fill_the_action_space():
    log = collect("line", transitions=2000)
    assert np.abs(log.actions.mean()) < 0.05
    assert log.actions.std() == pytest.approx(3**-0.5, rel=0.05)


def test_discrete_actions_are_logged_as_choices():
    log = collect("CartPole-v1", transitions=64)
    assert log.action_space.kind == "discrete"
    assert set(np.unique(log.actions)) == {0, 1}
    assert log.actions.shape == (64,)


def test_a_log_says_where_it_comes_from():
    pytest.importorskip("mujoco")
    origin = collect("hopper", transitions=3, physics="gymnasium").origin
    assert (origin.environment, origin.physics) == ("hopper", "gymnasium")
    assert origin.reference_scores == environments.reference_scores("hopper")


def test_nonsense_is_refused():
    with pytest.raises(PloffError, match="at least one transition"):
        collect("line", transitions=0)
    with pytest.raises(PloffError, match="'random' or a callable, got 'expert'"):
        collect("line", transitions=5, policy="expert")  # pyright: ignore[reportArgumentType]
