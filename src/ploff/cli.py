"""The `ploff` command: parse, call one library function, print.

Every command is a dataclass in `ploff.commands` with a `run` method; heavy modules are imported when it runs, so that
`ploff --help` answers at once.
"""

import os
import sys
import warnings
from typing import Annotated

import tyro

from ploff.commands.benchmark import Benchmark
from ploff.commands.data import Data
from ploff.commands.explain import Explain
from ploff.commands.gridworld import Gridworld
from ploff.commands.metric import Metric
from ploff.commands.report import Report
from ploff.commands.train import Train
from ploff.errors import PloffError, PloffWarning

Command = (
    Annotated[Benchmark, tyro.conf.subcommand("benchmark", prefix_name=False)]
    | Annotated[Data, tyro.conf.subcommand("data", prefix_name=False)]
    | Annotated[Explain, tyro.conf.subcommand("explain", prefix_name=False)]
    | Annotated[Gridworld, tyro.conf.subcommand("gridworld", prefix_name=False)]
    | Annotated[Metric, tyro.conf.subcommand("metric", prefix_name=False)]
    | Annotated[Report, tyro.conf.subcommand("report", prefix_name=False)]
    | Annotated[Train, tyro.conf.subcommand("train", prefix_name=False)]
)


def main(arguments: list[str] | None = None) -> None:
    """Runs one command. Exit codes: 0 done, 2 the input is at fault, 1 ploff is, 130 interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    traceback = "--traceback" in arguments or bool(os.environ.get("PLOFF_TRACEBACK"))
    arguments = [argument for argument in arguments if argument != "--traceback"]
    command = tyro.cli(Command, prog="ploff", args=arguments, description=__doc__)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", PloffWarning)
            warnings.showwarning = _show_warning
            command.run()
    except KeyboardInterrupt as interrupt:
        _leave(str(interrupt) or "interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # a reader such as `head` went away
    except (PloffError, FileNotFoundError, IsADirectoryError, PermissionError) as error:
        if traceback:
            raise
        _leave(f"error: {' '.join(str(error).split())}", 2)
    except Exception as error:
        if traceback:
            raise
        kind = type(error).__name__
        _leave(f"internal error: {kind}: {' '.join(str(error).split())} (add --traceback to see where)", 1)


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """Ploff's own warnings in one line; others as Python shows them."""
    if issubclass(category, PloffWarning):
        sys.stderr.write(f"ploff: warning: {' '.join(str(message).split())}\n")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _leave(message: str, code: int) -> None:
    sys.stderr.write(f"ploff: {message}\n")
    raise SystemExit(code)
