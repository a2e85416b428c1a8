"""Ray takes its time to start: one cluster of three nodes for all of these."""

import os
import pathlib
import types
from collections import Counter

import pytest

ray = pytest.importorskip("ray")
from experiment_cases import TARGET, drive, executed, job, scored_log, small_suite  # noqa: E402
from ploff.experiments.executors.ray import RayExecutor  # noqa: E402
from ploff.experiments.jobs import Outcome  # noqa: E402
from ploff.experiments.run_suite import run_suite  # noqa: E402
from ploff.experiments.schedule import run_jobs  # noqa: E402
from ploff.experiments.store import Store  # noqa: E402
from ploff.utils.errors import PloffError  # noqa: E402
from ploff.utils.progress import Progress  # noqa: E402

TESTS = str(pathlib.Path(__file__).parents[2])


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = TESTS if before is None else f"{TESTS}{os.pathsep}{before}"
    # Ray's own politeness (niceness 15) would starve its workers wherever anything else is running.
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(
        initialize_head=True, head_node_args={**small, "include_dashboard": False}, shutdown_at_exit=False
    )
    for _ in range(2):
        cluster.add_node(**small)
    yield cluster
    cluster.shutdown()
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


def on_ray(cluster, folder, jobs):
    store = Store(folder)
    executor = RayExecutor(folder, cluster.address, target=TARGET)
    try:
        with store.writing():
            failed = run_jobs(jobs, executor, store, quiet=True)
        return store, failed, executor.slots
    finally:
        executor.close()


def test_a_cluster_of_three_nodes_gives_what_local_workers_give(cluster, tmp_path):
    first = job("first")
    jobs = [first, *(job(f"number {n}", needs=[first.key]) for n in range(3)), job("bad", "fail")]
    there, failed_there, slots = on_ray(cluster, tmp_path / "ray", jobs)
    here, failed_here = drive(tmp_path / "local", jobs)
    assert slots == 3
    for each in jobs[:-1]:
        assert there.result(each.key)["score"] == here.result(each.key)["score"]
        assert there.result(each.key)["cores"] == here.result(each.key)["cores"] == 1
    assert [r["reason"] for r in failed_there] == [r["reason"] for r in failed_here] == ["this cannot be done"]


def test_progress_comes_before_the_outcome(cluster, tmp_path):
    executor = RayExecutor(tmp_path, cluster.address, target=TARGET)
    try:
        executor.submit(job("one"))
        events = []
        while not (events and isinstance(events[-1], Outcome)):
            events += [event for _, event in executor.wait()]
    finally:
        executor.close()
    assert events[:2] == [Progress(0, 2), Progress(1, 2, {"score": 0.5})]
    assert events[2].status == "done"


def test_a_killed_worker_of_the_cluster_loses_only_its_job_which_is_run_again(cluster, tmp_path):
    jobs = [job("victim", "die once"), job("other")]
    store, failed, _ = on_ray(cluster, tmp_path, jobs)
    assert failed == []
    assert all(store.is_done(each.key) for each in jobs)
    assert Counter(executed(tmp_path)) == {"victim": 2, "other": 1}


@pytest.mark.skipif(not os.environ.get("PLOFF_SLOW_TESTS"), reason="takes minutes; PLOFF_SLOW_TESTS=1 runs it")
def test_a_suite_has_the_same_tables_from_the_cluster_as_from_local_workers(cluster, tmp_path):
    suite = small_suite(scored_log(tmp_path))
    here = run_suite(suite, tmp_path / "local", workers=2, quiet=True)
    there = run_suite(suite, tmp_path / "ray", ray=cluster.address, quiet=True)
    assert here.failures == there.failures == []
    assert len(here.results.runs) == 6
    assert here.results == there.results
    for name in ("evaluations.csv", "scores.csv", "table.csv", "table.tex", "tables.md"):
        assert (tmp_path / "local" / name).read_text() == (tmp_path / "ray" / name).read_text()


def test_an_address_where_nothing_answers_is_said_in_one_line(tmp_path):
    with pytest.raises(PloffError, match="no Ray cluster answers at 'nonsense"):
        RayExecutor(tmp_path, "nonsense")


def test_the_loss_of_the_drivers_own_node_is_said_as_such():
    class LocalRayletDiedError(Exception):
        pass

    def get(_):
        raise LocalRayletDiedError

    executor = object.__new__(RayExecutor)
    exceptions = types.SimpleNamespace(LocalRayletDiedError=LocalRayletDiedError, RayError=Exception)
    executor._ray = types.SimpleNamespace(get=get, exceptions=exceptions)
    with pytest.raises(PloffError, match="the Ray node of this machine is lost"):
        executor._next_event(iter([1]))
    assert hasattr(ray.exceptions, "LocalRayletDiedError")
