import dataclasses

import numpy as np
import pytest

from judging_cases import always, judged_log
from ploff.judging.judged_log import JudgedLog
from ploff.judging.log_distance import LogDistance
from ploff.judging.neighbor_chain import chain_returns, distances_to


def returns(log, policy, **options):
    logged = LogDistance.l2(log.data).logged
    actions, near = log.actions_of(policy), np.asarray(logged.neighbors)
    distances = distances_to(logged, actions, np.arange(log.data.num_states), near)
    return chain_returns(log, distances, near, bandwidth=0.1, **{"replicates": 1, **options})


def test_where_every_action_was_logged_the_chain_is_exact():
    log = judged_log()
    # From state 0, always up: the first step pays 0, the other four pay 1.
    np.testing.assert_allclose(returns(log, always(1.0)), 4.0, atol=1e-5)
    np.testing.assert_allclose(returns(log, always(-1.0)), 0.0, atol=1e-5)
    # Up in state 0 and down in state 1: 0 1 0 1 0.
    np.testing.assert_allclose(returns(log, lambda s: 1 - 2 * np.asarray(s)), 2.0, atol=1e-5)


def test_an_action_that_was_never_logged_is_taken_for_the_nearest():
    """The known weakness: in state 1 the log goes down, and the chain with it, where the truth would be 4."""
    biased = judged_log(stuck=True)
    np.testing.assert_allclose(returns(biased, always(1.0)), 2.0, atol=1e-5)


def test_going_astray_costs_what_would_follow_and_staying_costs_nothing():
    biased = judged_log(stuck=True)
    # In state 1 the nearest logged action is 2 away: with a reach of 2 a step there is worth 1/e of what it was.
    # Steps 0 1 0 1 0: the first 1 is kept with 1/e, the second with 1/e².
    expected = np.exp(-1) + np.exp(-2)
    np.testing.assert_allclose(returns(biased, always(1.0), reach=2.0), expected, atol=1e-5)
    np.testing.assert_allclose(returns(judged_log(), always(1.0), reach=2.0), 4.0, atol=1e-5)


def test_replicates_differ_where_episodes_do_and_the_first_is_over_all():
    log = judged_log(episodes=6, seed=1)
    found = returns(log, always(0.0), replicates=4, num_nearest=30)
    assert found.shape == (4, 6)
    assert np.ptp(found.mean(axis=1)) > 0
    np.testing.assert_allclose(found[0], returns(log, always(0.0), num_nearest=30)[0], rtol=1e-6)


@pytest.mark.parametrize("up", [0.2, 0.8])
def test_an_action_between_two_is_worth_what_lies_between(up):
    log = judged_log(share=up, episodes=60)
    value = returns(log, always(0.0), num_nearest=50).mean()
    assert 0.5 < value < 3.5


def test_where_rewards_are_costs_going_astray_earns_the_worst_of_them_to_the_end():
    log = judged_log(stuck=True)
    costs = JudgedLog.of(dataclasses.replace(log.data, rewards=np.asarray(log.data.rewards) - 1))
    # A reach of next to nothing: the step in state 0 costs 1, the four from state 1 on cost 1 each, as at worst.
    np.testing.assert_allclose(returns(costs, always(1.0), reach=1e-3), -5.0, atol=1e-5)
    np.testing.assert_allclose(returns(costs, always(1.0)), -3.0, atol=1e-5)
