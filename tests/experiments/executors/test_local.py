"""Worker processes: killed, lost, stopped; the driver killed; a full disk."""

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections import Counter

from experiment_cases import TARGET, drive, executed, job, wait_until
from ploff.experiments.executors.local import LocalExecutor
from ploff.experiments.store import Store

TESTS = pathlib.Path(__file__).parents[2]


def start_driver(folder, descriptions, code=None):
    command = [sys.executable, str(TESTS / "experiment_cases.py"), str(folder), json.dumps(descriptions)]
    if code is not None:
        command = [sys.executable, "-c", code, str(folder), json.dumps(descriptions)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(TESTS)}, stderr=subprocess.PIPE, text=True)


def is_running(process):
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


def test_jobs_run_after_what_they_need_each_in_a_process_of_one_core(tmp_path):
    first, second = job("first"), job("second")
    last = job("last one", needs=[first.key, second.key])
    store, failed = drive(tmp_path, [first, second, last])
    assert failed == []
    assert executed(tmp_path)[-1] == "last one"
    results = [store.result(each.key) for each in (first, second, last)]
    assert all(result["cores"] == 1 and result["process"] != os.getpid() for result in results)


def test_both_workers_are_busy_at_once(tmp_path):
    jobs = [job(f"sleeper {number}", "sleep", seconds=1.0) for number in range(2)]
    store, _ = drive(tmp_path, jobs)
    assert len({store.result(each.key)["process"] for each in jobs}) == 2


def test_a_killed_worker_loses_only_its_job_which_is_run_again(tmp_path):
    jobs = [job("victim", "die once"), *(job(f"other {number}") for number in range(4))]
    store, failed = drive(tmp_path, jobs)
    assert failed == []
    assert all(store.is_done(each.key) for each in jobs)
    assert Counter(executed(tmp_path)) == {"victim": 2, **{f"other {number}": 1 for number in range(4)}}


def test_a_job_that_kills_every_worker_is_given_up_with_its_reason(tmp_path):
    killer, other = job("killer", "die"), job("other")
    store, failed = drive(tmp_path, [killer, other])
    assert [record["label"] for record in failed] == ["killer"]
    assert "was killed by SIGKILL" in failed[0]["reason"]
    assert store.is_done(other.key)


def test_a_killed_driver_takes_its_workers_along_and_the_next_one_finishes(tmp_path):
    descriptions = [
        *({"name": f"quick {number}"} for number in range(3)),
        *({"name": f"slow {number}", "action": "sleep", "seconds": 60} for number in range(2)),
    ]
    driver = start_driver(tmp_path, descriptions)
    wait_until(lambda: sum(name.startswith("slow") for name in executed(tmp_path)) == 2)
    workers = pathlib.Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    assert len(workers) >= 2
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    wait_until(lambda: not any(map(is_running, workers)), 10)
    assert len(Store(tmp_path).records) == 3
    quick = [job(f"quick {number}") for number in range(3)]
    rest = [job(f"slow {number}", "sleep", seconds=0) for number in range(2)]
    store, failed = drive(tmp_path, [*quick, *rest])
    assert failed == []
    assert all(store.is_done(each.key) for each in [*quick, *rest])
    assert all(count == 1 for name, count in Counter(executed(tmp_path)).items() if name.startswith("quick"))


def test_closing_lets_running_jobs_save_what_they_have(tmp_path):
    executor = LocalExecutor(tmp_path, 2, target=TARGET)
    for name in ("one", "two"):
        executor.submit(job(name, "last"))
    wait_until(lambda: len(executed(tmp_path)) == 2)
    executor.close()
    assert {path.name for path in tmp_path.glob("*.saved")} == {"one.saved", "two.saved"}


def test_a_write_that_fails_loses_no_result_and_the_next_command_finishes(tmp_path):
    # A limit on the size of files stands for a full disk: the kernel writes what fits, then refuses.
    descriptions = [{"name": f"job {number}"} for number in range(6)]
    code = (
        "import resource, signal, sys, json, experiment_cases as cases\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (900, resource.RLIM_INFINITY))\n"
        "    cases.drive(sys.argv[1], [cases.job(**each) for each in json.loads(sys.argv[2])], workers=1)\n"
    )
    driver = start_driver(tmp_path, descriptions, code)
    _, errors = driver.communicate(timeout=60)
    assert driver.returncode != 0
    assert "cannot be written: File too large; the" in errors
    kept = Store(tmp_path)
    assert 0 < len(kept.records) < 6
    assert kept.torn == 0
    jobs = [job(f"job {number}") for number in range(6)]
    store, failed = drive(tmp_path, jobs)
    assert failed == []
    repeated = {name for name, count in Counter(executed(tmp_path)).items() if count > 1}
    done_before = {record["label"] for record in kept.records.values()}
    assert repeated.isdisjoint(done_before)
    assert all(store.is_done(each.key) for each in jobs)
