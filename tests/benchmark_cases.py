"""Jobs that cost nothing, for tests of the machinery around them."""

import json
import os
import pathlib
import signal
import sys
import time

from ploff.benchmark.jobs import Job
from ploff.benchmark.pool import WORK, LocalPool, attempt
from ploff.benchmark.schedule import run_jobs
from ploff.benchmark.store import Store
from ploff.benchmark.suite import parse_suite
from ploff.errors import PloffError

TARGET = "benchmark_cases:perform"


def job(name, action="ok", needs=(), **arguments):
    return Job(
        kind="toy", arguments={"name": name, "action": action, **arguments}, needs=tuple(needs), label=name
    )


def perform(job, folder):
    """Notes that it ran, and does as the job says."""
    arguments = job.arguments
    before = executed(folder)
    with open(folder / "executed.txt", "a") as file:
        file.write(arguments["name"] + "\n")
    match arguments["action"]:
        case "fail":
            raise PloffError("this cannot\nbe done")
        case "break":
            raise RuntimeError("a bug")
        case "die once" if arguments["name"] not in before:
            os.kill(os.getpid(), signal.SIGKILL)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            time.sleep(arguments["seconds"])
    return {"score": len(arguments["name"]) * 1.5, "process": os.getpid(), "cores": cores()}


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def executed(folder):
    path = pathlib.Path(folder) / "executed.txt"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def drive(folder, jobs, workers=2):
    """Runs jobs on local workers, as the command does."""
    store = Store(folder)
    pool = LocalPool(folder, workers, target=TARGET)
    try:
        with store.writing():
            failed = run_jobs(jobs, pool, store, quiet=True)
    finally:
        pool.close()
    return store, failed


class InThisProcess:
    """A pool that does each job when it is submitted: quick where starting processes would take longest."""

    slots = 1

    def __init__(self, folder, target=WORK):
        self.folder, self.target, self.ended = folder, target, []

    def submit(self, job):
        self.ended.append((job, attempt(self.target, job, str(self.folder))))

    def wait(self):
        ended, self.ended = self.ended, []
        return ended

    def close(self):
        pass


def small_suite(task, **changes):
    """A suite of tiny networks and few steps."""
    tiny = {"settings": {"hidden": [16, 16]}}
    content = {
        "name": "small",
        "tasks": [str(task)],
        "seeds": 2,
        "steps": 40,
        "evaluate_every": 20,
        "episodes": 1,
        "metric_steps": 500,
        "metric": {"hidden": 16, "embedding": 4, "rows": 16, "actions": 2},
        "methods": {"bc": tiny, "ploff": {**tiny, "paper": "PLOff"}, "ploff-l2": tiny},
        "neighbour_parts": 2,
    }
    return parse_suite({**content, **changes})


def hopper_log(folder, transitions=400):
    """A small log of random actions on hopper, as a file."""
    import ploff

    path = pathlib.Path(folder) / "hopper-small.npz"
    ploff.save(ploff.collect("hopper", transitions=transitions), path)
    return path


if __name__ == "__main__":  # a driver of its own, to be killed: FOLDER and jobs as JSON
    drive(sys.argv[1], [job(**description) for description in json.loads(sys.argv[2])])
