"""The training loop that every learner shares: compiled scans, checkpoints, resuming, divergence.

A learner is a pure function `update(state, *operands, key) -> (state, info)`, where `info` is a flat dictionary of
scalars. `operands` (the dataset, the rows to draw from) are arguments of the compiled scan, so they stay where they
are and are read in place. Step i draws from key i of the seed, whatever came before: a run that was cut off and
resumed ends as one that was not.
"""

import contextlib
import math
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ploff.training.checkpoint import load_header, load_tree, save_tree
from ploff.utils import interrupts
from ploff.utils.errors import PloffError
from ploff.utils.files import write_csv

State = TypeVar("State")
Row = dict[str, float]

SECONDS_BETWEEN_CHECKPOINTS = 20.0


class DivergenceError(PloffError):
    """Training left what is possible; the last checkpoint is from before."""


@eqx.filter_jit
def scan_updates(
    update: Callable[..., tuple[State, dict[str, jax.Array]]],
    state: State,
    operands: tuple[Any, ...],
    key: PRNGKeyArray,
    first: jax.Array,
    count: int,
) -> tuple[State, dict[str, jax.Array]]:
    """Runs steps `first` … `first + count − 1` in one compiled loop; the infos come back stacked."""
    arrays, static = eqx.partition(state, eqx.is_array)

    def step(arrays: Any, number: jax.Array) -> tuple[Any, Any]:
        state, info = update(eqx.combine(arrays, static), *operands, jax.random.fold_in(key, number))
        return eqx.filter(state, eqx.is_array), info

    arrays, infos = jax.lax.scan(step, arrays, first + jnp.arange(count))
    return eqx.combine(arrays, static), infos


class TrainingRun(Generic[State]):
    """One training run: where it is, what it has seen, and its checkpoint.

    Attributes:
      state: what the learner has learned.
      step: updates done.
      history: one row per compiled call: the mean of each info, the largest where its name begins with `max_`.
      evaluations: one row per evaluation, as the caller measured it.
      memory: arrays that the caller keeps from one evaluation to the next; saved with the state.
    """

    def __init__(
        self,
        label: str,
        state: State,
        *,
        checkpoint: pathlib.Path | None = None,
        header: Mapping[str, Any] | None = None,
        memory: Any = None,
        evaluations_name: str = "evaluations",
    ):
        """Begins a run, or resumes it from its checkpoint.

        Args:
          label: what is being trained, for people.
          state: the learner's state before its first update.
          checkpoint: the file to resume from and to write to; None keeps nothing.
          header: what is kept beside the state.
          memory: see the class.
          evaluations_name: the name of the evaluations' CSV file.
        """
        self.label, self.state, self.memory = label, state, memory
        self.checkpoint, self.header, self.evaluations_name = checkpoint, dict(header or {}), evaluations_name
        self.step, self.history, self.evaluations = 0, list[Row](), list[Row]()
        self._saved = -math.inf  # a folder that cannot be written to is noticed after the first call
        if checkpoint is not None and checkpoint.exists():
            found = load_header(checkpoint)
            self.state, self.memory = load_tree(checkpoint, (state, memory))
            self.step, self.history, self.evaluations = found["step"], found["history"], found["evaluations"]

    def updates(
        self,
        update: Callable[..., tuple[State, dict[str, jax.Array]]],
        operands: tuple[Any, ...],
        *,
        steps: int,
        seed: int,
        scan_length: int = 500,
        evaluate_every: int = 0,
        check: Callable[[Row], str | None] = lambda row: None,
    ) -> Iterator[Row]:
        """Trains up to step `steps`; yields a row of the history after each compiled call, to look at or to add to.

        Args:
          update: the learner; see the module's text.
          operands: its arguments between state and key.
          steps: the step to stop at.
          seed: seeds every random draw of the run.
          scan_length: updates per compiled call.
          evaluate_every: a compiled call ends at each multiple of this many steps.
          check: says what is wrong with a row, None if nothing is.

        Raises:
          DivergenceError: a number is not finite, or `check` found something wrong.
        """
        key = jax.random.key(seed)
        while self.step < steps:
            count = self._next_count(steps, scan_length, evaluate_every)
            state, infos = scan_updates(update, self.state, operands, key, jnp.asarray(self.step), count)
            row = {"step": self.step + count, **summarize(infos)}
            if problem := check(row) or not_finite(row):
                raise self._diverged(row, problem)
            self.state, self.step = state, self.step + count
            self.history.append(row)
            yield row
            interrupts.check()
            if time.monotonic() - self._saved > SECONDS_BETWEEN_CHECKPOINTS:
                self.save()

    def evaluation_is_due(self, every: int, *, last: int | None = None) -> bool:
        """Whether this step is a multiple of `every`, or the `last` one, and was not evaluated yet."""
        due = (bool(every) and self.step % every == 0) or self.step == last
        return due and self.step > 0 and not (self.evaluations and self.evaluations[-1]["step"] == self.step)

    @contextlib.contextmanager
    def saved_when_stopped(self) -> Iterator[None]:
        """Saves the run when the block is interrupted, or when the generator around it is closed."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit):
            self.save()
            raise

    def save(self, *, finished: bool = False) -> None:
        """Writes the checkpoint, whole or not at all, and the history as CSV beside it."""
        if self.checkpoint is None:
            return
        if self._saved > -math.inf and not self.checkpoint.parent.is_dir():
            raise PloffError(
                f"{self.checkpoint.parent} is gone: it was moved or deleted while {self.label} was trained in it"
            )
        progress = {"step": self.step, "finished": finished, "history": self.history, "evaluations": self.evaluations}
        save_tree(self.checkpoint, (self.state, self.memory), {**self.header, **progress})
        for name, rows in (("history", self.history), (self.evaluations_name, self.evaluations)):
            if rows:
                write_csv(self.checkpoint.with_name(f"{name}.csv"), rows)
        self._saved = time.monotonic()

    def _next_count(self, steps: int, scan_length: int, evaluate_every: int) -> int:
        """Updates in the next compiled call: up to `scan_length`, the next evaluation or the end.

        Calls are counted from the last evaluation on, wherever an earlier end or Ctrl-C left off.
        """
        since = self.step % evaluate_every if evaluate_every else self.step
        to_evaluation = evaluate_every - since if evaluate_every else scan_length
        return min(scan_length - since % scan_length, to_evaluation, steps - self.step)

    def _diverged(self, row: Row, problem: str) -> DivergenceError:
        self.save()
        stays = self.checkpoint is not None and self.history
        kept = f"; the checkpoint of step {self.history[-1]['step']:,} stays" if stays else ""
        return DivergenceError(f"{self.label} diverged before step {row['step']:,}: {problem}{kept}")


def summarize(infos: Mapping[str, Any]) -> Row:
    """One row from stacked infos: the largest of `max_*`, the mean of the others."""
    return {
        name: float(np.max(values) if name.startswith("max_") else np.mean(values)) for name, values in infos.items()
    }


def not_finite(row: Row) -> str | None:
    """Says which values are not finite, if any are."""
    names = [name for name, value in row.items() if not math.isfinite(value)]
    return f"{', '.join(names)} not finite; try a lower learning rate" if names else None
