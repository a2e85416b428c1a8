"""What the page says first."""

import dataclasses
import re

import pytest

from agent_cases import unlearned_metric
from metric_cases import SMALL
from ploff.experiments.run_folder import SeedResult
from ploff.experiments.tables import Results
from ploff.metric.train import LearnedMetric
from ploff.report.gather import Group, ReportData, TaskMetric
from ploff.report.headline import alerts, headline, settings
from ploff.transitions import Normalizer

CONFIG = {
    "method": "bc", "settings": {"batch_size": 7, "hidden_sizes": [256, 256]}, "training": {"steps": 10},
    "data": {"mean_return": 10.0}, "references": [0.0, 20.0],
}  # fmt: skip


def story(scores, **changes):
    """One task; the seeds' scores of each method."""
    results = Results({name: {"hopper": list(found)} for name, found in scores.items()}, (), ("hopper",), {})
    groups = [
        Group("hopper", name, CONFIG, [SeedResult(seed, 10, [], []) for seed in range(len(found))])
        for name, found in scores.items()
    ]
    return dataclasses.replace(ReportData("t", groups, results, [], []), **changes)


def test_it_names_the_best_method_the_next_one_and_the_data():
    said = headline(story({"bc": [50.0, 52.0], "ploff": [90.0, 92.0]}))
    assert '<i class="swatch c1"></i>ploff has a mean score of <strong>91.0</strong> on hopper' in said
    assert 'the highest of 2; next is <i class="swatch c0"></i>bc with 51.0.' in said
    assert "The logs' own episodes have 50.0." in said
    assert "overlap" not in said
    assert "intervals overlap" in headline(story({"bc": [50.0, 95.0], "ploff": [60.0, 92.0]}))
    assert "overlap" not in headline(story({"bc": [50.0], "ploff": [60.0]}))  # one run says nothing of others
    assert "No policy was tried in an environment: bc." in headline(story({"bc": []}))
    tried = [Group("hopper", "bc", CONFIG, [SeedResult(0, 10, [], [{"step": 10.0, "mean_return": -71.25}])])]
    assert 'Mean returns: <i class="swatch c0"></i>bc -71.25.' in headline(story({"bc": []}, groups=tried))


def a_metric(*largest):
    history = [{"step": float(step), "max_distance": value} for step, value in enumerate(largest)]
    learned = LearnedMetric(unlearned_metric(), SMALL, 10.0, Normalizer.identity(), history, [])
    return TaskMetric("hopper", None, learned, "hopper", {})


def test_what_is_wrong_now_is_said_and_what_was_wrong_at_the_random_start_is_not():
    assert list(alerts(story({"bc": [1.0]}, metrics=[a_metric(30.0, 9.0)]))) == []
    (said,) = alerts(story({"bc": [1.0]}, metrics=[a_metric(9.0, 30.0)]))
    assert said == "The metric of hopper ends with a distance beyond its bound of 10."
    rows = [
        [{"step": 1.0, "max_q": 900.0, "q_bound": 100.0}, {"step": 2.0, "max_q": last, "q_bound": 100.0}]
        for last in (50.0, 370.0)
    ]
    seeds = [SeedResult(seed, 2, history, []) for seed, history in enumerate(rows)]
    (said,) = alerts(story({"bc": [1.0]}, groups=[Group("hopper", "bc", CONFIG, seeds)]))
    assert "ends with a value of 370, where 100 is the most there can be (1 of 2 seeds)" in said
    assert list(alerts(story({"bc": [1.0]}, failures=[("a", "b")]))) == ["Failed: 1; the reasons are below."]


def test_settings_say_at_once_what_is_not_a_default():
    shown = settings(story({"bc": [1.0]}))
    assert '<summary><i class="swatch c0"></i>bc: batch_size=7</summary>' in shown
    assert re.search(r">batch_size</td><td[^>]*>7</td><td[^>]*>256</td>", shown)  # the default stands beside it
    assert shown.count("<details>") == 1


@pytest.mark.parametrize("last", [9.0, 11.0])
def test_the_metrics_summary_speaks_of_now(last):
    learned = a_metric(30.0, last).learned
    rows = [{**row, "phi_loss": 1.0, "psi_loss": 1.0} for row in learned.history]
    said = dataclasses.replace(learned, history=rows).summary()
    assert ("exceeds its bound" in said) == (last > 10)
    assert f"largest distance {last:.3g}, bound 10" in said
