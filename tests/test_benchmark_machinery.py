import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from benchmark_cases import drive, executed, job
from ploff.benchmark.store import Store
from ploff.errors import PloffError

HERE = pathlib.Path(__file__).parent


def record(key, **fields):
    return {"key": key, "status": "done", "result": {"score": 1.0}, **fields}


def start_driver(folder, descriptions, code=None):
    command = [sys.executable, str(HERE / "benchmark_cases.py"), str(folder), json.dumps(descriptions)]
    if code is not None:
        command = [sys.executable, "-c", code, str(folder), json.dumps(descriptions)]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(HERE)}, stderr=subprocess.PIPE, text=True
    )


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def is_running(process):
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


def test_what_was_appended_is_read_back_and_the_last_record_counts(tmp_path):
    store = Store(tmp_path)
    store.append(record("a", status="failed", reason="no"))
    store.append(record("b"))
    store.append(record("a"))
    again = Store(tmp_path)
    assert list(again.records) == ["a", "b"]
    assert again.is_done("a")
    assert again.failures() == []
    assert len(again.path.read_text().splitlines()) == 3


def test_a_line_that_was_cut_off_counts_for_nothing_at_every_length(tmp_path):
    store = Store(tmp_path)
    store.append(record("a"))
    whole = store.path.read_bytes()
    store.append(record("b"))
    both = store.path.read_bytes()
    for length in range(len(whole), len(both) - 1):
        store.path.write_bytes(both[:length])
        cut = Store(tmp_path)
        assert list(cut.records) == ["a"]
        cut.append(record("c"))
        assert list(Store(tmp_path).records) == ["a", "c"]


def test_two_writers_do_not_meet(tmp_path):
    with Store(tmp_path).writing(), pytest.raises(PloffError, match="another benchmark is writing"):
        Store(tmp_path).writing().__enter__()


def test_jobs_run_after_what_they_need_each_in_a_process_of_one_core(tmp_path):
    first, second = job("first"), job("second")
    last = job("last", needs=[first.key, second.key])
    store, failed = drive(tmp_path, [first, second, last])
    assert failed == []
    assert executed(tmp_path)[-1] == "last"
    results = [store.result(each.key) for each in (first, second, last)]
    assert all(result["cores"] == 1 and result["process"] != os.getpid() for result in results)


def test_both_workers_are_busy_at_once(tmp_path):
    jobs = [job(f"sleeper {number}", "sleep", seconds=1.0) for number in range(2)]
    store, _ = drive(tmp_path, jobs)
    assert len({store.result(each.key)["process"] for each in jobs}) == 2


def test_a_failure_is_told_in_one_line_and_stops_only_what_builds_on_it(tmp_path):
    bad, broken, good = job("bad", "fail"), job("broken", "break"), job("good")
    blocked = job("blocked", needs=[bad.key])
    store, failed = drive(tmp_path, [bad, blocked, broken, good])
    reasons = {record["label"]: record["reason"] for record in failed}
    assert reasons["bad"] == "this cannot be done"
    assert reasons["blocked"] == "what it builds on failed: this cannot be done"
    assert reasons["broken"].startswith("RuntimeError: a bug (benchmark_cases.py:")
    assert store.is_done(good.key)
    assert "blocked" not in executed(tmp_path)


def test_what_failed_is_tried_again_by_the_next_command_and_what_is_done_is_not(tmp_path):
    jobs = [job("good"), job("bad", "fail")]
    drive(tmp_path, jobs)
    drive(tmp_path, jobs)
    assert Counter(executed(tmp_path)) == {"good": 1, "bad": 2}


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


def test_a_write_that_fails_loses_no_result_and_the_next_command_finishes(tmp_path):
    # A limit on the size of files stands for a full disk: the kernel writes what fits, then refuses.
    descriptions = [{"name": f"job {number}"} for number in range(6)]
    code = (
        "import resource, signal, sys, json, benchmark_cases as cases\n"
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


def test_a_job_that_nothing_prepares_is_a_mistake_in_the_plan(tmp_path):
    with pytest.raises(ValueError, match="nothing among these jobs does what 'lonely' needs"):
        drive(tmp_path, [job("lonely", needs=["absent"])])
