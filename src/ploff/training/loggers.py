"""Loggers: where a run's numbers also go, beside its CSV files: TensorBoard or Weights & Biases, if asked for."""

import contextlib
import hashlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from ploff.utils.errors import UnknownNameError, require

LOGGERS = ("tensorboard", "wandb")


@runtime_checkable
class Logger(Protocol):
    """Takes numbers."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Takes the values of a step."""
        ...


class _NoLogger:
    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Drops them."""


class _TensorBoard:
    def __init__(self, writer: Any):
        self.writer = writer

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)


class _WeightsAndBiases:
    def __init__(self, run: Any):
        self.run = run

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)


def check_logger(name: str | None) -> None:
    """Refuses a logger that is not known or not installed."""
    if name is None:
        return
    if name not in LOGGERS:
        raise UnknownNameError("logger", name, LOGGERS)
    require("tensorboardX" if name == "tensorboard" else "wandb", extra=name)


@contextlib.contextmanager
def open_logger(name: str | None, folder: pathlib.Path, label: str, settings: Mapping[str, Any]) -> Iterator[Logger]:
    """Opens the logger of that name for one seed's folder, closed at the end of the block; None drops everything."""
    check_logger(name)
    if name is None:
        yield _NoLogger()
    elif name == "tensorboard":
        writer = require("tensorboardX", extra=name).SummaryWriter(str(folder / "tensorboard"))
        with contextlib.closing(writer):
            yield _TensorBoard(writer)
    else:
        identity = hashlib.blake2b(str(folder.resolve()).encode(), digest_size=8).hexdigest()
        run = require("wandb", extra=name).init(
            project="ploff", name=label, id=identity, dir=str(folder), config=dict(settings), resume="allow"
        )
        try:
            yield _WeightsAndBiases(run)
        finally:
            run.finish()
