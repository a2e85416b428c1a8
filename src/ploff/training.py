"""The training loop that every learner shares: compiled scans, checkpoints, resuming, divergence, Ctrl-C.

A learner is a pure function `update(state, *operands, key) -> (state, info)`; `operands` (the dataset, the rows to draw
from) are arguments of the compiled scan, so they stay where they are and are read in place. Step i draws from key i of
the seed, whatever came before: a run that was cut off and resumed ends as one that was not.
"""

import csv
import io
import math
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ploff import storage
from ploff.errors import PloffError
from ploff.progress import Tracker, track

State = TypeVar("State")
Row = dict[str, float]

SECONDS_BETWEEN_CHECKPOINTS = 20.0


class DivergenceError(PloffError):
    """Training left what is possible; the last checkpoint is from before."""


@eqx.filter_jit
def scan_updates(
    update: Callable[..., tuple[State, Any]],
    state: State,
    operands: tuple[Any, ...],
    key: PRNGKeyArray,
    first: jax.Array,
    count: int,
) -> tuple[State, Any]:
    """Steps `first` … `first + count − 1` in one compiled loop; the infos come back stacked."""
    arrays, static = eqx.partition(state, eqx.is_array)

    def step(arrays: Any, number: jax.Array) -> tuple[Any, Any]:
        state, info = update(eqx.combine(arrays, static), *operands, jax.random.fold_in(key, number))
        return eqx.filter(state, eqx.is_array), info

    arrays, infos = jax.lax.scan(step, arrays, first + jnp.arange(count))
    return eqx.combine(arrays, static), infos


class Loop(Generic[State]):
    """One training run: where it is, what it has seen, and how it goes on.

    Attributes:
      state: what the learner has learned.
      step: updates done.
      history: a row a chunk of steps: the mean of each info, and the largest where its name says so.
      checks: a row a check, as `check` returned it.
      memory: arrays that a check keeps for the next one; saved with the state.
    """

    def __init__(
        self,
        label: str,
        update: Callable[..., tuple[State, Any]],
        state: State,
        operands: tuple[Any, ...],
        *,
        seed: int,
        chunk: int = 500,
        checkpoint: pathlib.Path | None = None,
        header: Mapping[str, Any] | None = None,
        memory: Any = None,
        checks_name: str = "checks",
        watch: Sequence[str] | None = None,
    ):
        """A run that begins here, or goes on from the checkpoint.

        Args:
          label: what is being trained, for people.
          update, state, operands: the learner; see the module's text.
          seed: of all that is random in it.
          chunk: steps in one compiled call.
          checkpoint: the file to go on from and to write to.
          header: what is kept beside the state.
          memory: see the class.
          checks_name: of the checks' CSV file.
          watch: the values shown while it runs; all of them by default.
        """
        self.label, self.update, self.state, self.operands = label, update, state, operands
        self.seed, self.chunk, self.checkpoint, self.header = seed, chunk, checkpoint, dict(header or {})
        self.step, self.history, self.checks, self.memory = 0, list[Row](), list[Row](), memory
        self.checks_name, self.watch = checks_name, watch
        self._saved = -math.inf  # a folder that cannot be written to is noticed after the first chunk
        if checkpoint is not None and checkpoint.exists():
            self._resume(checkpoint)

    def run(
        self,
        steps: int,
        *,
        check: Callable[["Loop[State]"], Row] | None = None,
        check_every: int = 0,
        check_end: bool = False,
        settled: Callable[[list[Row]], bool] = lambda checks: False,
        healthy: Callable[[Row], str | None] = lambda row: None,
        complete: Callable[[Row], Row] = lambda row: row,
        quiet: bool = False,
    ) -> State:
        """Trains up to step `steps`, or until the checks have settled.

        Args:
          steps: the step to stop at.
          check: measures the state; called every `check_every` steps.
          check_every: steps between checks; a compiled call ends at each of them.
          check_end: whether it is also called at the last step.
          settled: whether the checks so far say that training is over.
          healthy: what is wrong with a row of the history, None if nothing is.
          complete: sees each row of the history as it is made, and may add to it.
          quiet: show no progress.
        """

        def check_if_due() -> None:
            due = (bool(check_every) and self.step % check_every == 0) or (check_end and self.step == steps)
            done = not self.step or (bool(self.checks) and self.checks[-1]["step"] == self.step)
            if check is not None and due and not done:
                self.checks.append({"step": self.step, **check(self)})

        try:
            with track(self.label, steps, done=self.step, quiet=quiet) as tracker:
                check_if_due()  # the run may have been cut off between a step and its check
                while self.step < steps and not settled(self.checks):
                    self._advance(self._stretch(steps, check_every), healthy, complete)
                    check_if_due()
                    self._show(tracker)
                    self._save_now_and_then()
        except KeyboardInterrupt:
            self.save()
            where = (
                f"; run the same command again to go on from step {self.step:,}" if self.checkpoint else ""
            )
            raise KeyboardInterrupt(f"{self.label}: interrupted at step {self.step:,}{where}") from None
        self.save(finished=True)
        return self.state

    def save(self, *, finished: bool = False) -> None:
        """Writes the checkpoint, whole or not at all, and the history as CSV beside it."""
        if self.checkpoint is None:
            return
        progress = {"step": self.step, "finished": finished, "history": self.history, "checks": self.checks}
        header = {**self.header, **progress}
        storage.save_tree(self.checkpoint, (self.state, self.memory), header)
        for name, rows in (("history", self.history), (self.checks_name, self.checks)):
            if rows:
                write_csv(self.checkpoint.with_name(f"{name}.csv"), rows)
        self._saved = time.monotonic()

    def _stretch(self, steps: int, check_every: int) -> int:
        """Steps of the next compiled call: a chunk, or what is left of it, to the next check or the end.

        Chunks begin at the checks, wherever an earlier end or Ctrl-C left off.
        """
        since = self.step % check_every if check_every else self.step
        to_check = check_every - since if check_every else self.chunk
        return min(self.chunk - since % self.chunk, to_check, steps - self.step)

    def _resume(self, checkpoint: pathlib.Path) -> None:
        header = storage.load_header(checkpoint)
        self.state, self.memory = storage.load_tree(checkpoint, (self.state, self.memory))
        self.step, self.history, self.checks = header["step"], header["history"], header["checks"]

    def _advance(
        self, count: int, healthy: Callable[[Row], str | None], complete: Callable[[Row], Row]
    ) -> None:
        key = jax.random.key(self.seed)
        state, infos = scan_updates(
            self.update, self.state, self.operands, key, jnp.asarray(self.step), count
        )
        row = {"step": self.step + count, **summarise(infos)}
        problem = healthy(row) or not_finite(row)
        if problem:
            self.save()
            stays = self.checkpoint is not None and self.history
            kept = f"; the checkpoint of step {self.history[-1]['step']:,} stays" if stays else ""
            raise DivergenceError(f"{self.label} diverged before step {row['step']:,}: {problem}{kept}")
        self.state, self.step = state, self.step + count
        self.history.append(complete(row))

    def _show(self, tracker: Tracker) -> None:
        shown = {
            name: value
            for row in (self.history[-1:], self.checks[-1:])
            for r in row
            for name, value in r.items()
        }
        watched = [name for name in shown if name != "step"] if self.watch is None else self.watch
        tracker.update(self.step, {name: shown[name] for name in watched if name in shown})

    def _save_now_and_then(self) -> None:
        if time.monotonic() - self._saved > SECONDS_BETWEEN_CHECKPOINTS:
            self.save()


def summarise(infos: Any) -> Row:
    """A row of a chunk's infos (a named tuple of arrays): the largest of `largest_*`, the mean of the others."""
    return {
        name: float(np.max(values) if name.startswith("largest") else np.mean(values))
        for name, values in infos._asdict().items()
    }


def not_finite(row: Row) -> str | None:
    """Says which values are not finite, if any are."""
    names = [name for name, value in row.items() if not math.isfinite(value)]
    return f"{', '.join(names)} not finite; try a lower learning rate" if names else None


def refuse_difference(place: pathlib.Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raises an error that names the first setting of what is in `place` that is not as it is wanted."""
    old, new = _flat(found), _flat(wanted)
    for path in {**new, **old}:
        was, now, name = old.get(path), new.get(path), path.rpartition(".")[2]
        if was == now:
            continue
        if name == "dataset":
            raise PloffError(f"{place} was trained on another dataset; choose another --out, or delete it")
        raise PloffError(
            f"{place} was trained with {name}={was}, not {now}; choose another --out, or delete it"
        )


def _flat(tree: Any, path: str = "") -> dict[str, Any]:
    """Nested settings by their paths, with lists as tuples, as JSON gives them back."""
    if not isinstance(tree, dict):
        return {path: tuple(tree) if isinstance(tree, list) else tree}
    return {
        name: value
        for key, inner in tree.items()
        for name, value in _flat(inner, f"{path}.{key}" if path else key).items()
    }


def write_csv(path: pathlib.Path, rows: list[Row]) -> None:
    """Writes rows under the union of their columns, whole or not at all."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with storage.replacing(path) as partial:
        partial.write_text(text.getvalue())
