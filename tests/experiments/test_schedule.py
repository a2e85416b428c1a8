"""Jobs in the order of their needs; what fails stops only what builds on it."""

import pathlib
from collections import Counter

import pytest

from experiment_cases import drive, executed, job
from ploff.experiments.executors.serial import SerialExecutor
from ploff.experiments.jobs import Outcome, Warned
from ploff.experiments.schedule import run_jobs
from ploff.experiments.store import Store
from ploff.utils.errors import PloffWarning
from ploff.utils.progress import Progress


@pytest.mark.parametrize("serial", [True, False])
def test_a_failure_is_told_in_one_line_and_stops_only_what_builds_on_it(tmp_path, serial):
    bad, broken, good = job("bad", "fail"), job("broken", "break"), job("good")
    blocked = job("blocked", needs=[bad.key])
    store, failed = drive(tmp_path, [bad, blocked, broken, good], serial=serial)
    reasons = {record["label"]: record["reason"] for record in failed}
    assert reasons["bad"] == "this cannot be done"
    assert reasons["blocked"] == "what it builds on failed: this cannot be done"
    assert reasons["broken"].startswith("RuntimeError: a bug (experiment_cases.py:")
    assert {record["label"]: record["mendable"] for record in failed}["broken"] is False
    assert store.is_done(good.key)
    assert "blocked" not in executed(tmp_path)


@pytest.mark.parametrize("serial", [True, False])
def test_what_failed_is_tried_again_by_the_next_command_and_what_is_done_is_not(tmp_path, serial):
    jobs = [job("good"), job("bad", "fail")]
    drive(tmp_path, jobs, serial=serial)
    drive(tmp_path, jobs, serial=serial)
    assert Counter(executed(tmp_path)) == {"good": 1, "bad": 2}


def test_a_job_that_nothing_prepares_is_a_mistake_in_the_plan(tmp_path):
    with pytest.raises(ValueError, match="nothing among these jobs does what 'lonely' needs"):
        drive(tmp_path, [job("lonely", needs=["absent"])], serial=True)


class Scripted:
    """An executor that tells what it is told to."""

    slots = 1

    def __init__(self, *events):
        self.events, self.running = list(events), None

    def submit(self, job):
        self.running = job

    def wait(self):
        event = self.events.pop(0)
        if event is KeyboardInterrupt:
            raise KeyboardInterrupt
        return [(self.running, event)]

    def close(self):
        pass


def test_a_jobs_warning_is_the_commands_own(tmp_path):
    executor = Scripted(Warned("odd, but it goes on"), Outcome("done"))
    with pytest.warns(PloffWarning, match="odd, but it goes on"):
        run_jobs([job("one")], executor, Store(tmp_path), quiet=True)


def test_an_interruption_says_how_far_each_running_job_was(tmp_path):
    executor = Scripted(Progress(1_500, 9_000), KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt, match="run the same command again to go on: one at step 1,500"):
        run_jobs([job("one")], executor, Store(tmp_path), quiet=True)


def test_a_job_whose_worker_goes_away_is_run_again_and_given_up_after_three_times(tmp_path):
    lost = Outcome("lost", reason="its worker went away")
    assert run_jobs([job("a")], Scripted(lost, lost, Outcome("done")), Store(tmp_path / "a"), quiet=True) == []
    (failed,) = run_jobs([job("a")], Scripted(lost, lost, lost), Store(tmp_path / "b"), quiet=True)
    assert failed["reason"] == "its worker went away, 3 times"


def test_the_progress_of_all_jobs_fits_80_columns(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("ploff.utils.progress.SECONDS_BETWEEN_LINES", 0.0)
    pathlib.Path(tmp_path).mkdir(exist_ok=True)
    values = {"score": 123.456, "mean_return": -1234.5, "mean_q": 1e-9, "max_q": 3.0, "q_bound": 100.0}
    executor = Scripted(
        Progress(1_000, 500_000, values), Progress(2_000, 500_000, values), Outcome("done"), Outcome("done")
    )
    run_jobs([job("halfcheetah-medium-expert, ploff seed 0"), job("b")], executor, Store(tmp_path))
    lines = capfd.readouterr().err.splitlines()
    assert any("1 of 2 jobs done" in line for line in lines)
    assert any("2,000/500,000" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_serial_and_local_executors_give_the_same_results(tmp_path):
    jobs = [job("a"), job("bb")]
    stores = [drive(tmp_path / str(serial), jobs, serial=serial)[0] for serial in (True, False)]
    assert stores[0].result(jobs[1].key)["score"] == stores[1].result(jobs[1].key)["score"] == 3.0
    assert SerialExecutor.slots == 1
