"""How long a plan will take: from what the store says of like jobs, else from what was measured on one core.

Time by the clock is bounded from below in two ways: all cores are busy all the time, and no job begins before those
that it needs are done. The greater of the two is told; greedy scheduling needs at most their sum.

The figures below are processor seconds on the bundled sample, with an evaluation of ten episodes every 2,000 steps, two
workers on two cores; those of the methods from `awr` on are what `benchmarks/methods.py` times on one core, rounded.
"""

from collections.abc import Iterable, Sequence

from ploff.experiments.jobs import Job
from ploff.experiments.store import Store

BEGINNING = 4.0  # loading and compiling
OTHERS = {"agent": 10.0, "metric": 13.7}  # seconds per thousand steps of what is not measured yet
PER_THOUSAND_STEPS = {
    "metric, 128 rows": 6.6,
    "metric, 256 rows": 13.7,
    "bc": 2.8,
    "td3-off": 8.1,
    "td3-bc": 8.3,
    "ploff": 11.4,
    "ploff-l2": 10.0,
    "awr": 1.0,
    "iql": 10.0,
    "prdc": 10.0,
    "pic": 10.0,
    "brac-v": 15.0,
    "rebrac": 60.0,
    "bcq": 60.0,
    "bear": 60.0,
    "cql": 250.0,
}
OTHER_JOBS = 10.0  # each part of a search for neighbors, say, on a log of middling size


def costs(jobs: Iterable[Job], store: Store) -> dict[str, float]:
    """The processor seconds of each job, by its key, done or not."""
    seen = _seen(store)
    return {job.key: _one(job, seen) for job in jobs}


def seconds(jobs: Iterable[Job], store: Store) -> float:
    """The processor time that the jobs which are not done will take."""
    return sum(cost for key, cost in costs(jobs, store).items() if not store.is_done(key))


def wall_seconds(jobs: Sequence[Job], store: Store, slots: int) -> float:
    """The time until they are done on so many cores, at least that of the longest chain of jobs; needs come first."""
    left = {key: 0.0 if store.is_done(key) else cost for key, cost in costs(jobs, store).items()}
    done_at: dict[str, float] = {}
    for job in jobs:
        done_at[job.key] = left[job.key] + max((done_at.get(need, 0.0) for need in job.needs), default=0.0)
    return max(sum(left.values()) / slots, max(done_at.values(), default=0.0))


def _one(job: Job, seen: dict[str, list[float]]) -> float:
    name, thousands = _measure(job.kind, job.arguments)
    if name in seen:
        return thousands * sum(seen[name]) / len(seen[name])
    if job.kind in ("metric", "agent"):
        return BEGINNING + thousands * PER_THOUSAND_STEPS.get(name, OTHERS[job.kind])
    return OTHER_JOBS


def _seen(store: Store) -> dict[str, list[float]]:
    """What like jobs took, a thousand steps or a job."""
    seen: dict[str, list[float]] = {}
    for record in store.records.values():
        if record["status"] == "done":
            name, thousands = _measure(record["kind"], record["arguments"])
            seen.setdefault(name, []).append(record["processor_seconds"] / thousands)
    return seen


def _measure(kind: str, arguments: dict) -> tuple[str, float]:
    """The name that like jobs share, and the job's size."""
    if kind == "agent":
        return arguments["method"], arguments["training"]["steps"] / 1000
    if kind == "metric":
        return f"metric, {arguments['config']['batch_size']} rows", arguments["training"]["steps"] / 1000
    return kind, 1.0
