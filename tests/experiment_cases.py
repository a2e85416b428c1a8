"""Jobs that cost nothing, small suites and logs, for the tests of experiments."""

import dataclasses
import functools
import json
import os
import pathlib
import signal
import sys
import time

from ploff.environments.collection import collect
from ploff.experiments.executors.local import LocalExecutor
from ploff.experiments.executors.serial import SerialExecutor
from ploff.experiments.jobs import Job
from ploff.experiments.schedule import run_jobs
from ploff.experiments.store import Store
from ploff.experiments.suite import parse_suite
from ploff.utils.errors import PloffError
from ploff.utils.progress import Progress

TARGET = "experiment_cases:perform"
TINY = {"hidden_sizes": "8,8", "batch_size": "16"}
TINY_METRIC = {
    "metric.hidden_sizes": (32,),
    "metric.embedding_size": 8,
    "metric.batch_size": 16,
    "metric.num_next_actions": 3,
}  # metric_cases.SMALL
BRIEF = {"steps": 40, "evaluate_every": 10, "episodes": 2, "quiet": True}


def job(name, action="ok", needs=(), **arguments):
    return Job(kind="toy", arguments={"name": name, "action": action, **arguments}, needs=tuple(needs), label=name)


def perform(job, folder):
    """Notes that it ran, and does as the job says."""
    arguments = job.arguments
    before = executed(folder)
    with open(folder / "executed.txt", "a") as file:
        file.write(arguments["name"] + "\n")
    yield Progress(0, 2)
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
        case "last":
            yield from until_it_is_closed(folder, arguments["name"])
    yield Progress(1, 2, {"score": 0.5})
    return {"score": len(arguments["name"]) * 1.5, "process": os.getpid(), "cores": cores()}


def until_it_is_closed(folder, name):
    """Works on and on; notes when it is closed, as a job saves what it has."""
    try:
        for step in range(10**9):
            time.sleep(0.01)
            yield Progress(step, 10**9)
    except GeneratorExit:
        (pathlib.Path(folder) / f"{name}.saved").touch()
        raise


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def executed(folder):
    path = pathlib.Path(folder) / "executed.txt"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def drive(folder, jobs, workers=2, serial=False, target=TARGET):
    """Runs jobs on an executor, as the commands do."""
    store = Store(folder)
    executor = SerialExecutor(folder, target) if serial else LocalExecutor(folder, workers, target)
    try:
        with store.writing():
            failed = run_jobs(jobs, executor, store, quiet=True)
    finally:
        executor.close()
    return store, failed


@functools.cache
def swings():
    """A log with an environment that any process can make."""
    return collect("Pendulum-v1", transitions=400, seed=3)


def scored_log(folder):
    """The same as a file, with reference scores."""
    import ploff

    data = swings()
    origin = dataclasses.replace(data.origin, name="swings", reference_scores=(-1500.0, -100.0))
    return ploff.save(dataclasses.replace(data, origin=origin), pathlib.Path(folder) / "swings.npz", overwrite=True)


def small_suite(task, **changes):
    """A suite of tiny networks and few steps."""
    tiny = {"settings": {"hidden_sizes": [16, 16], "batch_size": 16}}
    content = {
        "name": "small",
        "tasks": [str(task)],
        "seeds": 2,
        "steps": 40,
        "evaluate_every": 20,
        "episodes": 1,
        "metric_steps": 500,
        "relevance": False,
        "metric": {"hidden_sizes": [16], "embedding_size": 4, "batch_size": 16, "num_next_actions": 2},
        "methods": {"bc": tiny, "ploff": {**tiny, "paper": "PLOff"}, "ploff-l2": tiny},
        "neighbor_parts": 2,
    }
    return parse_suite({**content, **changes})


def planned_suite(**changes):
    """A suite that is only planned."""
    content = {
        "name": "small",
        "tasks": ["sample"],
        "seeds": 2,
        "steps": 100,
        "evaluate_every": 50,
        "episodes": 1,
        "metric_steps": 500,
        "methods": {"bc": {}, "ploff": {}, "ploff-l2": {}},
    }
    return parse_suite({**content, **changes})


def scoring(score_of, store):
    """Does jobs at once: each run scores what `score_of` says of its arguments."""
    done = []

    def run(jobs):
        for each in jobs:
            if not store.is_done(each.key):
                done.append(each)
                score = score_of(each.arguments) if each.kind == "agent" else 0.0
                failed = score is None
                store.append(
                    {
                        "key": each.key,
                        "kind": each.kind,
                        "label": each.label,
                        "arguments": each.arguments,
                        "status": "failed" if failed else "done",
                        "reason": "no" if failed else "",
                        "seconds": 7.0,
                        "processor_seconds": 1.0,
                        "result": {"evaluations": [{"step": 1, "score": score}]},
                    }
                )

    return run, done


def arrays_of(run, seed=0):
    """Every array of a seed's checkpoint, as bytes behind its seal and header."""
    return (run / f"seed-{seed}" / "checkpoint.eqx").read_bytes().split(b"\n", 2)[2]


def assert_same_end(first, second, seed=0):
    """Both run folders hold the same parameters, history and evaluations."""
    assert arrays_of(first, seed) == arrays_of(second, seed)
    for name in ("history.csv", "evaluations.csv"):
        assert (first / f"seed-{seed}" / name).read_text() == (second / f"seed-{seed}" / name).read_text()


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


if __name__ == "__main__":  # a driver of its own, to be killed: FOLDER, jobs as JSON, and how it runs them
    drive(sys.argv[1], [job(**description) for description in json.loads(sys.argv[2])], serial="serial" in sys.argv)
