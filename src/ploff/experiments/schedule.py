"""Jobs in the order of their needs, on an executor, into the store."""

import time
import warnings
from collections.abc import Sequence

from ploff.experiments import estimate
from ploff.experiments.executors import Executor
from ploff.experiments.jobs import Job, Outcome, Warned
from ploff.experiments.store import Record, Store
from ploff.utils import interrupts
from ploff.utils.errors import PloffWarning
from ploff.utils.progress import Display, Progress, in_words, say

ATTEMPTS = 3  # of a job whose worker goes away under it
BLOCKED = "what it builds on failed: "
MAX_NAMED = 6  # jobs that an interruption names


def run_jobs(jobs: Sequence[Job], executor: Executor, store: Store, *, quiet: bool = False) -> list[Record]:
    """Runs what is not done yet; returns the records of the jobs that failed.

    Args:
      jobs: in the order in which they are to be started, needs before what needs them.
      executor: where they run.
      store: what is done already, and where the rest goes; the caller holds `store.writing()`.
      quiet: show no progress.

    Raises:
      KeyboardInterrupt: it was interrupted; the message says how far each running job was.
    """
    schedule = _Schedule(jobs, executor, store)
    with Display(quiet=quiet) as display:
        try:
            while schedule.start_what_can_start():
                interrupts.check()
                for job, event in executor.wait():
                    _take_in(job, event, schedule, display, quiet)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; run the same command again to go on{schedule.where()}") from None
    if schedule.waiting:
        raise ValueError(f"nothing among these jobs does what {schedule.waiting[0].label!r} needs")
    keys = {job.key for job in jobs}
    return [record for record in store.failures() if record["key"] in keys]


def _take_in(
    job: Job, event: Progress | Warned | Outcome, schedule: "_Schedule", display: Display, quiet: bool
) -> None:
    if isinstance(event, Warned):
        warnings.warn(event.text, PloffWarning, stacklevel=2)
    elif isinstance(event, Progress):
        schedule.progress[job.key] = event
        display.update(job.label, event)
    else:
        schedule.note(job, event)
        display.remove(job.label)
        if event.status != "done" and not quiet:
            say(f"{event.status}: {job.label}: {event.reason}")
    if len(schedule.costs) > 1:
        display.set_overall(schedule.overall())


class _Schedule:
    """What waits, what runs, and since when."""

    def __init__(self, jobs: Sequence[Job], executor: Executor, store: Store):
        self.executor, self.store = executor, store
        self.costs = estimate.costs(jobs, store)
        self.waiting = [job for job in {job.key: job for job in jobs}.values() if not store.is_done(job.key)]
        self.running: dict[str, float] = {}  # key: when it was started
        self.progress: dict[str, Progress] = {}  # key: how far, of what runs
        self.labels = {job.key: job.label for job in jobs}
        self.attempts: dict[str, int] = {}
        self.failed: dict[str, str] = {}  # key: why, in this session

    def start_what_can_start(self) -> bool:
        """Fills the executor's free slots; returns whether anything is running."""
        self._give_up_what_needs_a_failure()
        ready = [job for job in self.waiting if all(map(self.store.is_done, job.needs))]
        for job in ready[: self.executor.slots - len(self.running)]:
            self.waiting.remove(job)
            self.running[job.key] = time.monotonic()
            self.attempts[job.key] = self.attempts.get(job.key, 0) + 1
            self.executor.submit(job)
        return bool(self.running)

    def note(self, job: Job, outcome: Outcome) -> None:
        """Takes in what became of a job: into the store, or back among those that wait."""
        seconds = time.monotonic() - self.running.pop(job.key)
        self.progress.pop(job.key, None)
        if outcome.status == "lost" and self.attempts[job.key] < ATTEMPTS:
            self.waiting.insert(0, job)
            return
        reason = outcome.reason
        if outcome.status == "lost":
            reason = f"{reason}, {ATTEMPTS} times"
        self._record(job, reason, seconds, outcome)

    def overall(self) -> str:
        """How far everything is, for people. Jobs differ a hundredfold, so it goes by what they cost."""
        unfinished = {job.key for job in self.waiting} | set(self.running)
        total, left = sum(self.costs.values()), sum(self.costs[key] for key in unfinished)
        left -= sum(self.costs[key] * done.step / max(done.total, 1) for key, done in self.progress.items())
        done = len(self.costs) - len(unfinished)
        share = 1 - left / max(total, 1e-9)
        duration = in_words(left / self.executor.slots)
        return f"{done:,} of {len(self.costs):,} jobs done, {share:.0%} of the work; {duration} left"

    def where(self) -> str:
        """How far the running jobs are."""
        places = [f"{self.labels[key]} at step {done.step:,}" for key, done in self.progress.items()]
        more = f" and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else ""
        return f": {', '.join(places[:MAX_NAMED])}{more}" if places else ""

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
                "mendable": outcome.mendable,
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
                self._record(job, cause if cause.startswith(BLOCKED) else f"{BLOCKED}{cause}", 0.0, Outcome("failed"))
