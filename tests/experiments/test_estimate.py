"""How long a plan will take."""

import pytest

from experiment_cases import planned_suite, scoring
from ploff.agents import METHODS
from ploff.experiments import estimate
from ploff.experiments.plan import make_plan
from ploff.experiments.store import Store


def test_every_method_has_an_estimate():
    assert set(METHODS) <= set(estimate.PER_THOUSAND_STEPS)


def test_a_method_that_was_never_measured_is_estimated_too(tmp_path, monkeypatch):
    jobs = make_plan(planned_suite(methods={"bc": {}}, seeds=1)).jobs
    monkeypatch.delitem(estimate.PER_THOUSAND_STEPS, "bc")
    assert estimate.seconds(jobs, Store(tmp_path)) > 0


def test_an_estimate_rests_on_what_like_jobs_took(tmp_path):
    suite, store = planned_suite(methods={"bc": {}}, seeds=3), Store(tmp_path)
    jobs = make_plan(suite).jobs
    before = estimate.seconds(jobs, store)
    run, _ = scoring(lambda _: 1.0, store)
    run([job for job in jobs if job.arguments.get("seed", 0) == 0])
    assert estimate.seconds(jobs, store) == pytest.approx(2.0)
    assert before != pytest.approx(2.0)
    assert estimate.wall_seconds(jobs, store, 8) == pytest.approx(1.0)
