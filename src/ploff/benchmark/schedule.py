"""Jobs in the order of their needs, on a pool, into the store."""

import time
from collections.abc import Sequence

from ploff.benchmark import estimate
from ploff.benchmark.jobs import Job, Outcome
from ploff.benchmark.pool import Pool
from ploff.benchmark.store import Record, Store
from ploff.progress import console, track

ATTEMPTS = 3  # of a job whose worker goes away under it
BLOCKED = "what it builds on failed: "


def run_jobs(jobs: Sequence[Job], pool: Pool, store: Store, *, quiet: bool = False) -> list[Record]:
    """Runs what is not done yet; returns the records of the jobs that failed.

    Args:
      jobs: in the order in which they are to be started, needs before what needs them.
      pool: where they run.
      store: what is done already, and where the rest goes; the caller holds `store.writing()`.
      quiet: show no progress.
    """
    schedule, costs = _Schedule(jobs, pool, store), estimate.costs(jobs, store)

    def ended() -> list[float]:
        return [cost for key, cost in costs.items() if key not in schedule.unfinished()]

    # Jobs differ a hundredfold: what is left is judged by what they cost, not by how many they are.
    total, done = round(sum(costs.values())), round(sum(ended()))
    with track("seconds of a core", total, done=done, quiet=quiet) as tracker:
        while schedule.start_what_can_start():
            for job, outcome in pool.wait():
                schedule.note(job, outcome)
                _say(job, outcome, quiet)
                tracker.update(round(sum(ended())), {"jobs": len(ended()), "of": len(costs)})
    if schedule.waiting:
        raise ValueError(f"nothing among these jobs does what {schedule.waiting[0].label!r} needs")
    keys = {job.key for job in jobs}
    return [record for record in store.failures() if record["key"] in keys]


class _Schedule:
    """What waits, what runs, and since when."""

    def __init__(self, jobs: Sequence[Job], pool: Pool, store: Store):
        self.pool, self.store = pool, store
        self.waiting = [job for job in {job.key: job for job in jobs}.values() if not store.is_done(job.key)]
        self.running: dict[str, float] = {}  # key: when it was started
        self.attempts: dict[str, int] = {}
        self.failed: dict[str, str] = {}  # key: why, in this session

    def start_what_can_start(self) -> bool:
        """Fills the pool's free slots; returns whether anything is running."""
        self._give_up_what_needs_a_failure()
        ready = [job for job in self.waiting if all(map(self.store.is_done, job.needs))]
        for job in ready[: self.pool.slots - len(self.running)]:
            self.waiting.remove(job)
            self.running[job.key] = time.monotonic()
            self.attempts[job.key] = self.attempts.get(job.key, 0) + 1
            self.pool.submit(job)
        return bool(self.running)

    def unfinished(self) -> set[str]:
        """The keys of what waits or runs."""
        return {job.key for job in self.waiting} | set(self.running)

    def note(self, job: Job, outcome: Outcome) -> None:
        """Takes in what became of a job: into the store, or back among those that wait."""
        seconds = time.monotonic() - self.running.pop(job.key)
        if outcome.status == "lost" and self.attempts[job.key] < ATTEMPTS:
            self.waiting.insert(0, job)
            return
        reason = outcome.reason
        if outcome.status == "lost":
            reason = f"{reason}, {ATTEMPTS} times"
        self._record(job, reason, seconds, outcome)

    def _record(self, job: Job, reason: str, seconds: float, outcome: Outcome) -> None:
        if reason:
            self.failed[job.key] = reason
        self.store.append(
            {
                "key": job.key,
                "kind": job.kind,
                "label": job.label,
                "arguments": job.arguments,
                "status": "failed" if reason else "done",
                "reason": reason,
                "seconds": round(seconds, 3),
                "processor_seconds": round(outcome.processor_seconds, 3),
                "result": outcome.result,
            }
        )

    def _give_up_what_needs_a_failure(self) -> None:
        while blocked := [job for job in self.waiting if any(need in self.failed for need in job.needs)]:
            for job in blocked:
                self.waiting.remove(job)
                cause = next(self.failed[need] for need in job.needs if need in self.failed)
                self._record(
                    job, cause if cause.startswith(BLOCKED) else f"{BLOCKED}{cause}", 0.0, Outcome("failed")
                )


def _say(job: Job, outcome: Outcome, quiet: bool) -> None:
    if outcome.status != "done" and not quiet:
        console.print(f"{outcome.status}: {job.label}: {outcome.reason}", highlight=False, markup=False)
