"""What workers do, on a small log with tiny networks, in this process."""

import dataclasses
import shutil

import numpy as np
import pytest

pytest.importorskip("mujoco")
import ploff
from benchmark_cases import InThisProcess, hopper_log, small_suite
from metric_cases import random_log
from ploff import neighbors
from ploff.benchmark import run, work
from ploff.benchmark.jobs import Job
from ploff.benchmark.plan import make_plan
from ploff.benchmark.schedule import run_jobs
from ploff.benchmark.store import Store
from ploff.neighbors.search import SearchConfig
from ploff.pipeline import stages
from ploff.transitions import Origin


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return hopper_log(tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def suite_folder(tmp_path_factory, log):
    """A suite that was run to its end."""
    folder = tmp_path_factory.mktemp("suite")
    suite = small_suite(log)
    store = Store(folder)
    failed = run_jobs(make_plan(suite).jobs, InThisProcess(folder), store, quiet=True)
    assert failed == []
    return folder, suite


def test_every_run_of_a_suite_ends_with_a_score_and_a_run_folder(suite_folder):
    folder, suite = suite_folder
    store = Store(folder)
    for each in make_plan(suite).runs:
        result = store.result(each.job.key)
        assert [row["step"] for row in result["evaluations"]] == [20, 40]
        assert result["score"] == pytest.approx(np.mean([row["score"] for row in result["evaluations"]]))
        trained = ploff.load_run(folder / result["folder"])
        assert {seed.seed for seed in trained.seeds} == {0, 1}
        assert trained.config["settings"]["hidden"] == [16, 16]


def test_runs_share_one_metric(suite_folder):
    folder, _ = suite_folder
    metrics = list(folder.glob("stages/*/*/metric/checkpoint.eqx"))
    assert len(metrics) == 1


def test_a_run_of_a_suite_is_that_of_ploff_train(suite_folder, log, tmp_path):
    folder, suite = suite_folder
    job = next(each.job for each in make_plan(suite).runs if (each.column, each.seed) == ("bc", 1))
    trained = ploff.train(
        log, "bc", out=tmp_path, seeds=[1], steps=40, evaluate_every=20, episodes=1,
        settings={"hidden": (16, 16)}, quiet=True,
    )  # fmt: skip
    assert trained.seeds[0].score == Store(folder).result(job.key)["score"]


def test_more_steps_go_on_from_fewer_and_end_as_if_they_had_not(suite_folder, log, tmp_path):
    folder, suite = suite_folder
    job = next(each.job for each in make_plan(suite).runs if (each.column, each.seed) == ("bc", 0))
    less = Job(
        kind="run", arguments={**job.arguments, "training": {**job.arguments["training"], "steps": 20}}
    )
    assert len(work.perform(less, tmp_path)["evaluations"]) == 1
    assert work.perform(job, tmp_path)["evaluations"] == Store(folder).result(job.key)["evaluations"]


def test_neighbours_that_are_searched_in_parts_are_those_of_one_search(
    suite_folder, log, tmp_path, monkeypatch
):
    folder, suite = suite_folder
    plan = make_plan(suite)
    prepared = next(
        job for job in plan.jobs if job.kind == "neighbours" and job.arguments["evidence"] != "l2"
    )
    parts = [job for job in plan.jobs if job.kind == "part" and prepared.key in job.needs]
    table = next(job for job in plan.jobs if job.kind == "table" and parts[0].key in job.needs)
    whole = work.stage_folder(folder, str(log), prepared.arguments["evidence"])
    divided = work.stage_folder(tmp_path, str(log), prepared.arguments["evidence"])
    shutil.copytree(whole / "metric", divided / "metric")
    monkeypatch.setattr(work, "SearchConfig", lambda: SearchConfig(exact_work=0.0))  # lists, however small
    assert work.perform(prepared, tmp_path)["divided"]
    assert [work.perform(part, tmp_path)["states"] for part in parts] == [
        pytest.approx(ploff.load(log).num_states / 2, abs=1) for _ in parts
    ]
    assert work.perform(table, tmp_path)["recall"] >= 0.99
    data = ploff.load(log)
    found = []
    for place in (whole, divided):
        _, _, source, path = stages.parts("learned", place, data)
        found.append(np.asarray(neighbors.load_table(path, source).rows))
    same = [len(set(x) & set(y)) / len(x) for x, y in zip(*found, strict=True)]
    assert np.mean(same) >= 0.99
    assert (found[0][: len(data), 0] == found[1][: len(data), 0]).all()
    assert not (divided / "search").exists()


def test_data_that_no_policy_can_be_tried_on_is_refused_before_any_run(tmp_path):
    path = tmp_path / "nowhere.npz"
    ploff.save(dataclasses.replace(random_log(), origin=Origin(name="nowhere")), path)
    suite = small_suite(path, methods={"bc": {}})
    store = Store(tmp_path / "suite")
    failed = run_jobs(make_plan(suite).jobs, InThisProcess(store.folder), store, quiet=True)
    assert failed[0]["reason"].startswith("nowhere does not say in which environment policies are tried")
    assert all(record["reason"].startswith("what it builds on failed") for record in failed[1:])
    assert len(failed) == 3


def test_a_suite_notices_that_its_data_or_its_stages_are_not_what_they_were(suite_folder, log, tmp_path):
    folder, suite = suite_folder
    copied = tmp_path / "suite"
    shutil.copytree(folder, copied)
    more = dataclasses.replace(suite, seeds=(0, 1, 2))
    for stage in copied.glob("stages/*/l2"):
        shutil.rmtree(stage)
    store = Store(copied)
    failed = run_jobs(make_plan(more).jobs, InThisProcess(copied), store, quiet=True)
    assert len(failed) == 1
    assert "l2 is gone, on which this run builds" in failed[0]["reason"]
    (noted,) = copied.glob("stages/*/data.json")
    noted.write_text('{"fingerprint": "of something else"}')
    more = dataclasses.replace(suite, seeds=(3,))
    failed = run_jobs(make_plan(more).jobs, InThisProcess(copied), Store(copied), quiet=True)
    assert len(failed) == 3
    changed = ["its content has changed" in record["reason"] for record in failed]
    assert sum(changed) == 2  # the third lacks its stage


def test_data_that_does_not_fit_its_environment_is_refused_before_any_run(tmp_path):
    path = tmp_path / "hopper-mine.npz"
    origin = Origin(name="hopper-mine", environment="hopper", physics="d4rl", reference_scores=(0.0, 100.0))
    ploff.save(dataclasses.replace(random_log(), origin=origin), path)
    store = Store(tmp_path / "suite")
    jobs = make_plan(small_suite(path, methods={"bc": {}})).jobs
    failed = run_jobs(jobs, InThisProcess(store.folder), store, quiet=True)
    assert failed[0]["reason"].startswith("hopper has observations (11,)")


def test_a_suite_that_is_run_again_runs_nothing_and_writes_the_same_tables(suite_folder, monkeypatch):
    folder, suite = suite_folder
    pools = []
    monkeypatch.setattr(run, "LocalPool", lambda *_: pools.append(InThisProcess(folder)) or pools[-1])
    before = len((folder / "results.jsonl").read_text().splitlines())
    outcome = run.run_suite(suite, folder, quiet=True)
    tables = {path.name: path.read_text() for path in folder.glob("table*")}
    assert outcome.failures == []
    assert len((folder / "results.jsonl").read_text().splitlines()) == before
    run.run_suite(suite, folder, quiet=True)
    assert tables == {path.name: path.read_text() for path in folder.glob("table*")}
    assert "| hopper-small |" in tables["tables.md"]
