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


def test_time_by_the_clock_is_at_least_that_of_the_longest_chain_of_jobs(tmp_path):
    suite, store = planned_suite(methods={"ploff": {}}, seeds=2, metric_steps=1_000_000, steps=100_000), Store(tmp_path)
    jobs = make_plan(suite).jobs
    cost = estimate.costs(jobs, store)
    chain = [jobs[0], *(next(job for job in jobs if job.kind == kind) for kind in list(make_plan(suite).kinds)[1:])]
    longest = sum(cost[job.key] for job in chain)
    assert estimate.wall_seconds(jobs, store, 1_024) == pytest.approx(longest)
    assert estimate.wall_seconds(jobs, store, 1) == pytest.approx(sum(cost.values()))
    printed = make_plan(planned_suite(methods={"ploff": {"preset": "paper"}}, metric_steps=1_000_000)).jobs
    (wide,) = [job for job in printed if job.kind == "metric"]
    (narrow,) = [job for job in jobs if job.kind == "metric"]
    assert estimate.costs([wide], store)[wide.key] > 1.5 * cost[narrow.key]
