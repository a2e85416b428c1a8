"""Threads that share out small pieces of work, over and over, without waiting for each other to wake up.

The caller works too. A piece goes to whoever is free first, so a thread that the system has put aside holds
up only the piece that it has in hand. Threads are worth it where the work lets go of Python's lock, as
MuJoCo does while it simulates.
"""

import queue
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, runtime_checkable


@runtime_checkable
class Steppable(Protocol):
    """Something that can be done on any thread. It keeps its own failures: `step` must not raise."""

    def step(self) -> None:
        """Does the work."""
        ...


class ThreadedStepper:
    """The caller's thread and `extra` more, for the length of a `with` block."""

    def __init__(self, extra: int):
        self._todo: queue.SimpleQueue[Steppable | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"ploff-stepper-{number}", daemon=True) for number in range(extra)
        ]

    def __enter__(self) -> "ThreadedStepper":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._take() is not None:
            pass  # after an interruption there may be work that nobody should begin
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            thread.join()

    def step_all(self, pieces: Sequence[Steppable]) -> None:
        """Steps every piece once and returns when all are done."""
        for piece in pieces:
            self._todo.put(piece)
        left = len(pieces)
        while (piece := self._take()) is not None:
            piece.step()
            left -= 1
        for _ in range(left):
            self._done.get()

    def _take(self) -> Steppable | None:
        try:
            return self._todo.get_nowait()
        except queue.Empty:
            return None

    def _work(self) -> None:
        while (piece := self._todo.get()) is not None:
            piece.step()
            self._done.put(None)
