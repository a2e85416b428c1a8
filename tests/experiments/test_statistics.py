import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ploff.experiments import statistics
from ploff.experiments.statistics import Scores
from ploff.utils.errors import PloffError


def scores_of(*tasks):
    return Scores.of({f"task {number}": runs for number, runs in enumerate(tasks)})


def point(measure, scores):
    return measure(scores, np.ones((1, len(scores.values))))[0]


def test_the_mean_weighs_tasks_alike_however_many_runs_they_have():
    assert point(statistics.mean, scores_of([10.0, 20.0, 30.0], [0.0])) == 10.0


def test_the_interquartile_mean_is_that_of_the_middle_half():
    scores = scores_of([0.0, 1.0, 2.0, 100.0], [3.0, 4.0, -50.0, 5.0])
    assert point(statistics.interquartile_mean, scores) == (1 + 2 + 3 + 4) / 4


@given(st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=7), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_the_interquartile_mean_is_the_trimmed_mean(tasks):
    scores = scores_of(*tasks)
    expected = stats.trim_mean(scores.values, 0.25)
    assert point(statistics.interquartile_mean, scores) == pytest.approx(expected, abs=1e-9)


def test_a_replicate_given_by_counts_is_one_with_its_runs_repeated():
    scores = scores_of([3.0, 1.0, 8.0, 5.0], [2.0, 9.0, 7.0])
    counts = statistics.resample(scores, 50, np.random.default_rng(0))
    for row in counts.astype(int):
        repeated = np.repeat(scores.values, row)
        expected = stats.trim_mean(repeated, 0.25)
        assert statistics.interquartile_mean(scores, row[None].astype(float))[0] == pytest.approx(expected)


def test_each_tasks_runs_are_drawn_from_its_own():
    scores = scores_of([1.0, 2.0], [3.0, 4.0, 5.0])
    counts = statistics.resample(scores, 100, np.random.default_rng(0))
    assert (counts[:, :2].sum(axis=1) == 2).all()
    assert (counts[:, 2:].sum(axis=1) == 3).all()


def test_the_optimality_gap_does_not_let_one_run_make_up_for_another():
    assert point(statistics.optimality_gap, scores_of([150.0, 60.0])) == 20.0


def test_a_profile_is_the_share_of_runs_above_each_threshold():
    profile = statistics.performance_profile(scores_of([1.0, 2.0], [3.0, 4.0]), np.array([0.0, 1.0, 2.5, 4.0]))
    assert profile.share.tolist() == [1.0, 0.75, 0.5, 0.0]
    assert (profile.low <= profile.share).all()
    assert (profile.share <= profile.high).all()
    assert profile.low[0] == profile.high[0] == 1.0


def test_the_probability_of_improvement_counts_wins_and_half_of_the_ties():
    first, second = scores_of([1.0, 3.0], [5.0]), scores_of([1.0, 2.0], [5.0, 6.0])
    # First task: (1 beats none, ties one) and (3 beats two): (0.5 + 2)/4. Second task: one tie of two: 0.5/2.
    found = statistics.probability_of_improvement(first, second)
    assert found.estimate == pytest.approx((2.5 / 4 + 0.25) / 2)
    assert found.low <= found.estimate <= found.high


def test_the_probability_of_improvement_is_the_mann_whitney_statistic():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=9), rng.normal(size=7)
    expected = stats.mannwhitneyu(x, y).statistic / (9 * 7)
    found = statistics.probability_of_improvement(scores_of(x), scores_of(y))
    assert found.estimate == pytest.approx(expected)


def test_methods_are_compared_on_the_tasks_that_both_ran():
    first = Scores.of({"a": [1.0], "b": [5.0]})
    second = Scores.of({"b": [4.0], "c": [9.0]})
    assert statistics.probability_of_improvement(first, second).estimate == 1.0
    with pytest.raises(PloffError, match="no task was run by both"):
        statistics.probability_of_improvement(first.on(["a"]), second)


def test_intervals_repeat_under_a_seed_and_differ_under_another():
    scores = scores_of(np.random.default_rng(0).normal(size=10))
    assert statistics.interval(scores, seed=1) == statistics.interval(scores, seed=1)
    assert statistics.interval(scores, seed=1) != statistics.interval(scores, seed=2)


def test_intervals_are_wider_the_surer_they_are():
    scores = scores_of(np.random.default_rng(0).normal(size=30))
    narrow = statistics.interval(scores, confidence=0.5)
    wide = statistics.interval(scores, confidence=0.99)
    assert wide.low < narrow.low < narrow.estimate < narrow.high < wide.high
    with pytest.raises(PloffError, match="confidence"):
        statistics.interval(scores, confidence=95)


@pytest.mark.parametrize("measure", [statistics.mean, statistics.interquartile_mean])
def test_intervals_cover_the_truth_about_as_often_as_they_say(measure):
    # Symmetric scores: mean and interquartile mean of the population are both the center of all tasks, 20.
    rng, covered, trials = np.random.default_rng(0), 0, 400
    for trial in range(trials):
        scores = scores_of(*(20 + rng.normal(scale=(5.0, 6.0, 7.0)[task], size=15) for task in range(3)))
        found = statistics.interval(scores, measure, confidence=0.9, replicates=500, seed=trial)
        covered += found.low <= 20 <= found.high
    # 400 trials of an exact interval fall within ±0.045 of 0.9 in 99.7 of 100 cases; a percentile interval of 45 runs
    # is a little short (Student's t would be 2 % wider).
    assert 0.84 <= covered / trials <= 0.95


def test_resampling_ignoring_tasks_would_be_wider_than_the_stratified_interval():
    scores = scores_of([0.0, 1.0, 2.0] * 4, [100.0, 101.0, 102.0] * 4)
    stratified = statistics.interval(scores, statistics.mean)
    pooled = statistics.interval(scores_of(scores.values), statistics.mean)
    assert stratified.high - stratified.low < 2
    assert pooled.high - pooled.low > 20


def test_no_scores_are_an_error_of_one_line():
    with pytest.raises(PloffError, match="no score"):
        Scores.of({"a": []})


def test_students_interval_of_a_mean():
    assert statistics.student_interval([1.0]) is None
    low, high = statistics.student_interval([1.0, 2.0, 3.0]) or (0, 0)
    assert (low, high) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)  # t₂ = 4.3027, 1/√3
    assert statistics.student_interval([4.0, 4.0]) == (4.0, 4.0)
