"""From a suite to jobs."""

import dataclasses

from experiment_cases import planned_suite
from ploff.experiments.plan import make_plan


def test_a_plan_has_every_task_method_and_seed_and_shares_stages():
    plan = make_plan(planned_suite(tasks=["sample", "hopper-medium"], neighbor_parts=3))
    assert len(plan.runs) == 2 * 3 * 2
    kinds = {
        "data": 2,
        "relevance": 2,
        "metric": 2,
        "neighbors": 4,
        "neighbors-part": 12,
        "neighbors-table": 4,
        "agent": 12,
    }
    assert plan.kinds == kinds
    position = {job.key: place for place, job in enumerate(plan.jobs)}
    for job in plan.jobs:
        assert all(position[need] < position[job.key] for need in job.needs)


def test_columns_that_are_alike_share_their_runs_and_others_do_not():
    alike = make_plan(planned_suite(methods={"bc": {}, "cloning": {"method": "bc"}}))
    assert len(alike.runs) == 4
    assert alike.kinds["agent"] == 2
    metrics = {"ploff": {}, "other": {"method": "ploff", "metric": {"discount": 0.5}}}
    assert make_plan(planned_suite(methods=metrics)).kinds["metric"] == 2


def test_where_policies_are_evaluated_does_not_change_the_metric():
    here, there = (make_plan(planned_suite(environment=name)) for name in ("hopper", "pen"))
    for kind, same in (("metric", True), ("neighbors", True), ("agent", False), ("data", False)):
        keys = [{job.key for job in plan.jobs if job.kind == kind} for plan in (here, there)]
        assert (keys[0] == keys[1]) is same, kind


def test_every_key_of_a_suite_changes_its_plan():
    base = planned_suite(search=None)
    changes = {
        "tasks": ("hopper-medium",), "seeds": (7,), "preset": "paper", "steps": 200, "evaluate_every": 25,
        "episodes": 3, "metric_steps": 1_000, "metric": {"discount": 0.5}, "metric_from": "elsewhere",
        "neighbor_parts": 2, "columns": base.columns[:1], "reading": {"horizon": 9}, "environment": "pen",
        "physics": "gymnasium", "logger": "wandb", "scored": False, "metric_per_seed": True,
        "relevance": False,
        "hold_out": 0.2, "select": "judge",
    }  # fmt: skip
    told = {"name", "about", "search", "last_evaluations"}  # the last two are tested with searches and tables
    assert set(changes) == {field.name for field in dataclasses.fields(base)} - told
    keys = {job.key for job in make_plan(base).jobs}
    for name, value in changes.items():
        changed = dataclasses.replace(base, **{name: value})
        assert {job.key for job in make_plan(changed).jobs} != keys, name


def test_seeds_share_a_metric_or_learn_one_each_as_the_suite_says():
    def metrics(**changes):
        plan = make_plan(planned_suite(seeds=[3, 4], **changes))
        own = {job.key: job.arguments["training"]["seed"] for job in plan.jobs if job.kind == "metric"}
        for run in plan.runs:
            (table,) = run.job.needs
            job = next(job for job in plan.jobs if job.key == table)
            assert job.arguments["metric"] == run.job.arguments["metric"]
        return {(run.column, run.seed): own[run.job.arguments["metric"]] for run in plan.runs}

    assert metrics(methods={"ploff": {}}) == {("ploff", 3): 0, ("ploff", 4): 0}
    assert metrics(methods={"ploff": {}}, metric_per_seed=True) == {("ploff", 3): 3, ("ploff", 4): 4}
    columns = {name: {"method": "ploff", "metric_seed": seed} for seed, name in enumerate("ab")}
    assert metrics(methods=columns) == {("a", 3): 0, ("a", 4): 0, ("b", 3): 1, ("b", 4): 1}
