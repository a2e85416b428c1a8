"""The `ploff` command: parse, call one library function, print.

Every command is a dataclass in `ploff.commands` with a `run` method; heavy modules are imported when it runs, so that
`ploff --help` answers at once.
"""

import contextlib
import functools
import importlib.metadata
import operator
import os
import sys
import warnings
from typing import Annotated, Any

import tyro

from ploff.commands.benchmark import Benchmark
from ploff.commands.data import Data
from ploff.commands.evaluate import Evaluate
from ploff.commands.explain import Explain
from ploff.commands.gridworld import Gridworld
from ploff.commands.judge import Judge
from ploff.commands.methods import Methods
from ploff.commands.metric import Metric
from ploff.commands.report import Report
from ploff.commands.select import Select
from ploff.commands.train import Train
from ploff.utils import interrupts
from ploff.utils.errors import PloffError, PloffWarning, UnknownNameError

COMMANDS = {
    "train": Train,
    "evaluate": Evaluate,
    "judge": Judge,
    "select": Select,
    "explain": Explain,
    "report": Report,
    "data": Data,
    "methods": Methods,
    "metric": Metric,
    "benchmark": Benchmark,
    "gridworld": Gridworld,
}
CONFIG = (tyro.conf.DisallowNone,)  # leaving an option out says none
ABOUT = """From logged transitions to a policy, with no environment to try it in.

Start with `ploff data show LOG`, then `ploff train LOG --out RUN`."""


def main(arguments: list[str] | None = None) -> None:
    """Runs one command. Exit codes: 0 done, 2 the input is at fault, 1 ploff is, 128 + N stopped by signal N.

    `ploff judge` has two more: 3 not better than the log, 4 it cannot be told.
    """
    with contextlib.suppress(AttributeError):  # a stream that a program put there
        sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue] - a terminal of ASCII, say
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    traceback = "--traceback" in arguments or bool(os.environ.get("PLOFF_TRACEBACK"))
    arguments = [argument for argument in arguments if argument != "--traceback"]
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"ploff {importlib.metadata.version('ploff')}\n")
        return
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        _leave(f"error: {UnknownNameError('command', arguments[0], COMMANDS)}", 2)
    command = tyro.cli(_command_type(), prog="ploff", args=arguments or ["--help"], description=ABOUT, config=CONFIG)
    with interrupts.handled():
        _run(command, traceback)


def _run(command: Any, traceback: bool) -> None:
    """Runs a command; what goes wrong is one line and an exit code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", PloffWarning)
            warnings.showwarning = _show_warning
            interrupts.check()  # it may have come while modules were imported
            command.run()
            interrupts.check()
    except KeyboardInterrupt as interrupt:
        _leave(str(interrupt) or "interrupted", interrupts.exit_code())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # a reader such as `head` went away
    except (PloffError, OSError) as error:
        if traceback:
            raise
        _leave(f"error: {' '.join(str(error).split())}", 2)
    except Exception as error:
        if traceback:
            raise
        kind = type(error).__name__
        _leave(f"internal error: {kind}: {' '.join(str(error).split())} (add --traceback to see where)", 1)


def _command_type() -> Any:
    """The union of all commands, as tyro takes it."""
    named = [Annotated[kind, tyro.conf.subcommand(name, prefix_name=False)] for name, kind in COMMANDS.items()]
    return functools.reduce(operator.or_, named)


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """Ploff's own warnings in one line; others as Python shows them."""
    if issubclass(category, PloffWarning):
        sys.stderr.write(f"ploff: warning: {' '.join(str(message).split())}\n")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _leave(message: str, code: int) -> None:
    with contextlib.suppress(OSError):  # a terminal that was closed hears nothing
        sys.stderr.write(f"ploff: {message}\n")
    raise SystemExit(code)
