import numpy as np
import pytest

from judging_cases import two_states
from ploff.judging import importance

STARTS, LENGTHS = np.array([0, 2]), np.array([2, 1])


def test_weighted_per_decision_by_hand():
    # Two episodes: ratios 2, 3 with rewards 1, 10; and ratio 4 with reward 5, which then keeps its ratio.
    found = importance.weighted_returns(np.array([1.0, 10.0, 5.0]), np.log([2.0, 3.0, 4.0]), STARTS, LENGTHS)
    assert found == pytest.approx((2 * 1 + 4 * 5) / 6 + (6 * 10 + 4 * 0) / 10)


def test_the_behavior_itself_is_worth_the_logs_mean():
    data = two_states()
    ratios = np.zeros(len(data))
    starts, lengths = data.episode_starts(), data.episode_lengths()
    found = importance.weighted_returns(np.asarray(data.rewards), ratios, starts, lengths)
    assert found == pytest.approx(data.episode_returns().mean())
    assert importance.effective_episodes(ratios, starts, lengths) == pytest.approx(len(starts))


def test_where_the_policy_is_never_followed_one_episode_decides():
    """The known weakness: products of ratios leave all the weight to few episodes, and it says so."""
    data = two_states(share=0.3, episodes=60)
    toward = importance.smoothed_log_density(np.asarray(data.actions), np.ones((len(data), 1)), np.ones(1))
    found, notes = importance.estimate(np.asarray(data.rewards), toward - np.log(0.5), data)
    followed = np.add.reduceat(np.asarray(data.actions)[:, 0] > 0, data.episode_starts())
    assert found.value == pytest.approx(followed.max() - 1, abs=1.01)
    assert "rests on" in notes[0]


def test_a_density_around_an_action_sums_to_one():
    grid = np.linspace(-2, 2, 4001)[:, None]
    density = np.exp(importance.smoothed_log_density(grid, np.zeros_like(grid), np.array([1.0])))
    assert np.sum(density) * 0.001 == pytest.approx(1.0, abs=1e-3)


def test_counts_weigh_episodes():
    rewards, ratios = np.array([1.0, 10.0, 5.0]), np.zeros(3)
    assert importance.weighted_returns(rewards, ratios, STARTS, LENGTHS, np.array([2.0, 0.0])) == pytest.approx(11.0)
