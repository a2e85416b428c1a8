"""One job at a time, in this process."""

import os

from experiment_cases import TARGET, drive, job
from ploff.experiments.executors.serial import SerialExecutor
from ploff.experiments.jobs import Outcome
from ploff.utils.progress import Progress


def test_a_job_runs_in_this_process_and_tells_how_far_it_is(tmp_path):
    executor = SerialExecutor(tmp_path, TARGET)
    executor.submit(job("one"))
    events = [executor.wait()[0][1] for _ in range(3)]
    assert events[:2] == [Progress(0, 2), Progress(1, 2, {"score": 0.5})]
    assert isinstance(events[2], Outcome)
    assert events[2].result["process"] == os.getpid()


def test_closing_lets_the_running_job_save_what_it_has(tmp_path):
    executor = SerialExecutor(tmp_path, TARGET)
    executor.submit(job("one", "last"))
    executor.wait()
    executor.wait()
    executor.close()
    assert (tmp_path / "one.saved").exists()


def test_jobs_follow_each_other(tmp_path):
    first = job("first")
    store, failed = drive(tmp_path, [first, job("second", needs=[first.key])], serial=True)
    assert failed == []
    assert len(store.records) == 2
