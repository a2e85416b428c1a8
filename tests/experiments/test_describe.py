"""What a suite would run, and its price."""

import pathlib

import pytest

from experiment_cases import planned_suite, scoring
from ploff.experiments.describe import describe, papers_cells
from ploff.experiments.paper import paper_scores
from ploff.experiments.plan import make_plan
from ploff.experiments.store import Store
from ploff.experiments.suite import read_suite

REPRODUCE = pathlib.Path(__file__).parents[2] / "reproduce"
PRICED = ("table1", "search", "search-halving", "ablations", "metric-seeds", "long", "long-printed")


def test_table_1_has_exactly_the_papers_cells_and_its_protocol(tmp_path):
    suite = read_suite(REPRODUCE / "table1.toml")
    assert sorted(papers_cells(suite)) == sorted(paper_scores())
    plan = make_plan(suite)
    for run in plan.runs:
        training = run.job.arguments["training"]
        assert (training["steps"], training["episodes"]) == (500_000, 10)
    assert (suite.num_last, suite.seeds) == (1, tuple(range(10)))
    text = "\n".join(describe(suite, tmp_path))
    assert "  ploff, the paper's PLOff, preset paper" in text
    assert "  ploff, our default, method ploff" in text
    assert "cells: 288: 216 of the paper's Table 1, 72 others; seeds: 10" in text
    assert "metrics: shared by all seeds; score: the last evaluation" in text
    for name, metric_steps in (("ploff", 2_000_000), ("ploff, our default", 100_000)):
        keys = {run.job.arguments["metric"] for run in plan.runs if run.column == name}
        metrics = [job for job in plan.jobs if job.key in keys]
        assert [job.arguments["training"]["steps"] for job in metrics] == [metric_steps] * 24, name


def test_the_search_is_the_papers_every_task_of_a_family_counts(tmp_path):
    suite = read_suite(REPRODUCE / "search.toml")
    assert {family: len(tasks) for family, tasks in suite.families.items()} == {"locomotion": 12, "hand": 12}
    text = "\n".join(describe(suite, tmp_path))
    assert f"27 candidates for each of 4 (method, family), 3 seeds: {27 * 2 * 24 * 3:,} runs" in text
    for column in suite.columns:
        assert suite.config_of(column, "pen-human").critic_form == "paper"


@pytest.mark.parametrize("name", PRICED)
def test_the_price_in_a_suites_file_is_what_the_dry_run_says(name, tmp_path):
    path = REPRODUCE / f"{name}.toml"
    assert f"# {describe(read_suite(path), tmp_path)[-1]}" in path.read_text().splitlines()


def test_a_plan_is_priced_for_a_laptop_and_for_clusters_and_for_ones_own_number_of_cores(tmp_path):
    suite, store = planned_suite(methods={"bc": {}}, seeds=600), Store(tmp_path)
    run, _ = scoring(lambda _: 1.0, store)
    run([job for job in make_plan(suite).jobs if job.arguments.get("seed", 0) == 0])  # each took a second
    (line,) = [line for line in describe(suite, tmp_path, slots=10) if line.startswith("estimate: ")]
    assert line == (
        "estimate: 10 minutes of processor time; "
        "5 minutes on 2 cores, 60 seconds on 10 cores, 9 seconds on 64 cores, 1 seconds on 1,024 cores"
    )
