"""What can go wrong that a person can mend, and how it is said.

The library raises; the command prints one line and exits with 2. A message says what is wrong, where, and what to do.
"""

import difflib
import importlib
import os
from collections.abc import Iterable
from types import ModuleType


class PloffError(ValueError):
    """Something in the user's hands is wrong: a file, a name, a setting. The message is one line."""


class DataError(PloffError):
    """Logged data that must not be trained on."""


class DamagedFileError(PloffError):
    """A file of ploff's own is not as it was written. What can be made again is, once it is out of the way."""

    def __init__(self, path: str | os.PathLike[str], what: str = "its content is not what was written"):
        super().__init__(f"damaged: {path} ({what}); remove it and run the same command again")


class UnknownNameError(PloffError):
    """A name that is not known, with the nearest ones that are."""

    def __init__(self, kind: str, name: str, known: Iterable[str], remedy: str = ""):
        candidates = sorted(known)
        near = difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(candidates)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}" + (f" {remedy}" if remedy else ""))


class PloffWarning(UserWarning):
    """Something looks wrong, and the work goes on. The message is one line."""


class MissingExtraError(PloffError):
    """An optional part of ploff is not installed."""


def require(module: str, *, extra: str) -> ModuleType:
    """Imports an optional module, or says which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise MissingExtraError(f"{module} is not installed; `pip install 'ploff[{extra}]'` brings it") from error
