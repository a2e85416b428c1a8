"""What a job does, on a small log with tiny networks, in this process."""

import dataclasses
import shutil

import numpy as np
import pytest

import ploff
from experiment_cases import drive, scored_log, small_suite
from metric_cases import random_log
from ploff import neighbors
from ploff.experiments import logs, stages
from ploff.experiments.executors import STAGES
from ploff.experiments.jobs import Job
from ploff.experiments.plan import make_plan
from ploff.experiments.run_folder import metric_folder
from ploff.experiments.store import Store
from ploff.neighbors.knn import SearchConfig
from ploff.transitions import Origin
from ploff.utils import files
from ploff.utils.progress import follow


def serially(jobs, folder):
    return drive(folder, jobs, serial=True, target=STAGES)


def result_of(job, folder):
    return follow(job.label, stages.perform(job, folder), quiet=True)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return scored_log(tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def suite_folder(tmp_path_factory, log):
    """A suite that was run to its end."""
    folder = tmp_path_factory.mktemp("suite")
    suite = small_suite(log)
    _, failed = serially(make_plan(suite).jobs, folder)
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
        assert trained.config["settings"]["hidden_sizes"] == [16, 16]


def test_runs_share_one_metric(suite_folder):
    folder, _ = suite_folder
    assert len(list(folder.glob("metrics/*/metric.eqx"))) == 1


def test_more_steps_go_on_from_fewer_and_end_as_if_they_had_not(suite_folder, tmp_path):
    folder, suite = suite_folder
    plan = make_plan(suite)
    job = next(each.job for each in plan.runs if (each.column, each.seed) == ("bc", 0))
    result_of(plan.jobs[0], tmp_path)
    training = {**job.arguments["training"], "steps": 20}
    less = Job(kind="agent", arguments={**job.arguments, "training": training})
    assert len(result_of(less, tmp_path)["evaluations"]) == 1
    assert result_of(job, tmp_path)["evaluations"] == Store(folder).result(job.key)["evaluations"]


def test_neighbors_that_are_searched_in_parts_are_those_of_one_search(suite_folder, log, tmp_path, monkeypatch):
    folder, suite = suite_folder
    plan = make_plan(suite)
    index = next(job for job in plan.jobs if job.kind == "neighbors" and job.arguments["metric"] != "l2")
    parts = [job for job in plan.jobs if job.kind == "neighbors-part" and index.key in job.needs]
    table = next(job for job in plan.jobs if job.kind == "neighbors-table" and parts[0].key in job.needs)
    whole, divided = (metric_folder(place, str(log), index.arguments["metric"]) for place in (folder, tmp_path))
    divided.mkdir(parents=True)
    shutil.copy(whole / "metric.eqx", divided)
    monkeypatch.setattr(stages, "SearchConfig", lambda: SearchConfig(exact_work=0.0))  # lists, however small
    assert result_of(index, tmp_path)["divided"]
    count = ploff.load(log).num_states
    assert [result_of(part, tmp_path)["states"] for part in parts] == [pytest.approx(count / 2, abs=1)] * 2
    assert result_of(table, tmp_path)["recall"] >= 0.99
    data, found = ploff.load(log), []
    for place in (whole, divided):
        embedded = logs.embedded_log("learned", place, data)
        found.append(np.asarray(neighbors.load_table(embedded.table, embedded.key).rows))
    same = [len(set(x) & set(y)) / len(x) for x, y in zip(*found, strict=True)]
    assert np.mean(same) >= 0.99
    assert (found[0][: len(data), 0] == found[1][: len(data), 0]).all()
    assert not (divided / "search").exists()


def test_data_that_no_policy_can_be_scored_on_is_refused_before_any_run(tmp_path):
    path = tmp_path / "nowhere.npz"
    ploff.save(dataclasses.replace(random_log(), origin=Origin(name="nowhere")), path)
    _, failed = serially(make_plan(small_suite(path, methods={"bc": {}})).jobs, tmp_path / "suite")
    assert failed[0]["reason"].startswith("nowhere does not say in which environment policies are tried")
    assert all(record["reason"].startswith("what it builds on failed") for record in failed[1:])
    assert len(failed) == 3


def test_data_that_does_not_fit_its_environment_is_refused_before_any_run(tmp_path):
    path = tmp_path / "mine.npz"
    origin = Origin(name="mine", environment="Pendulum-v1", reference_scores=(0.0, 100.0))
    ploff.save(dataclasses.replace(random_log(), origin=origin), path)
    _, failed = serially(make_plan(small_suite(path, methods={"bc": {}})).jobs, tmp_path / "suite")
    assert failed[0]["reason"].startswith("Pendulum-v1 has observations (3,)")


def test_a_suite_notices_that_its_data_or_its_stages_are_not_what_they_were(suite_folder, tmp_path):
    folder, suite = suite_folder
    copied = tmp_path / "suite"
    shutil.copytree(folder, copied)
    for stage in copied.glob("metrics/*-l2"):
        shutil.rmtree(stage)
    _, failed = serially(make_plan(dataclasses.replace(suite, seeds=(0, 1, 2))).jobs, copied)
    assert len(failed) == 1
    assert "l2 is gone, on which this run builds" in failed[0]["reason"]
    (note,) = copied.glob("data/*.json")
    files.write_record(note, {"fingerprint": "of something else"})
    _, failed = serially(make_plan(dataclasses.replace(suite, seeds=(3,))).jobs, copied)
    assert len(failed) == 3
    changed = ["is not what it was when" in record["reason"] for record in failed]
    assert sum(changed) == 2  # the third lacks its stage


def test_neighbors_of_another_metric_are_found_anew(suite_folder, log, tmp_path):
    folder, suite = suite_folder
    copied = tmp_path / "suite"
    shutil.copytree(folder, copied)
    job = next(j for j in make_plan(suite).jobs if j.kind == "neighbors" and j.arguments["metric"] != "l2")
    place = metric_folder(copied, str(log), job.arguments["metric"])
    embedded = logs.embedded_log("learned", place, ploff.load(log))
    before = np.array(neighbors.load_table(embedded.table, embedded.key).rows)
    states = np.random.default_rng(0).normal(size=(len(before), 2)).astype(np.float32)
    other = neighbors.TableKey("another metric", embedded.key.dataset)
    neighbors.build_table(embedded.table, states, len(embedded.data), other, quiet=True)
    result_of(job, copied)
    np.testing.assert_array_equal(neighbors.load_table(embedded.table, embedded.key).rows, before)
