"""A piece of work, named by its content, and what may come of it."""

import dataclasses
import functools
from typing import Any, Literal

from ploff.utils.files import digest
from ploff.utils.progress import Progress


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One piece of work for one worker. Equal kind and arguments are the same job, in whatever suite."""

    kind: str
    arguments: dict[str, Any]  # as JSON has them
    needs: tuple[str, ...] = ()  # keys of the jobs that must be done before
    label: str = ""  # what people read

    @functools.cached_property
    def key(self) -> str:
        """Tells this job from any other."""
        return f"{self.kind}-{digest(self.arguments)}"


@dataclasses.dataclass(frozen=True)
class Warned:
    """A job has something to say, and goes on."""

    text: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    status: Literal["done", "failed", "lost"]  # lost: its worker went away, the job may be fine
    result: dict[str, Any] = dataclasses.field(default_factory=dict)
    reason: str = ""  # why it is not done, in one line
    mendable: bool = True  # whether that is the user's to mend
    processor_seconds: float = 0.0  # that the worker spent on it, however busy its machine was


Event = Progress | Warned | Outcome  # what an executor tells of a running job; an outcome is the last
