"""A piece of work, named by its content, and what may become of it."""

import dataclasses
import functools
import hashlib
import json
from typing import Any, Literal


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
        content = json.dumps(self.arguments, sort_keys=True).encode()
        return f"{self.kind}-{hashlib.blake2b(content, digest_size=8).hexdigest()}"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    status: Literal["done", "failed", "lost"]  # lost: its worker went away, the job may be fine
    result: dict[str, Any] = dataclasses.field(default_factory=dict)
    reason: str = ""
    processor_seconds: float = 0.0  # that the worker spent on it, however busy its machine was
