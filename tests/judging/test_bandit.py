import numpy as np

from ploff.judging.bandit import Bandit, spend


def test_beliefs_are_precision_weighted_by_hand():
    bandit = Bandit([10.0, 0.0], [2.0, 1e6], noise=4.0)
    bandit.observe(0, 20.0)
    # 1/4 + 1/16 of precision: (10/4 + 20/16) / (5/16) = 12.
    assert bandit.means[0] == 12.0


def test_trials_go_where_the_best_may_be_and_find_it():
    truth, rng = np.array([50.0, 80.0, 20.0]), np.random.default_rng(0)
    bandit = Bandit([70.0, 60.0, 10.0], [20.0, 20.0, 5.0], noise=10.0)
    spent = spend(bandit, 20, lambda policy, number: truth[policy] + 10 * rng.normal())
    assert [trial.number for trial in spent] == list(range(20))
    assert spent[-1].best == 1
    assert sum(trial.policy == 2 for trial in spent) == 0, "nothing is spent on what cannot be best"
    assert sum(trial.policy == 1 for trial in spent) > 10
