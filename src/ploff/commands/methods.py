"""`ploff methods`: what methods there are, and their settings."""

import dataclasses
import inspect
import io
import tokenize
from typing import Annotated, Any

import tyro

NEEDS = {"none": "the log", "learned": "the log and its metric", "l2": "the log and its neighbors in L2"}


@dataclasses.dataclass
class Methods:
    """List the methods; with a NAME, its settings and their defaults."""

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = None
    """A method."""

    def run(self) -> None:
        """Prints a table."""
        from rich.console import Console
        from rich.table import Table

        from ploff.agents import METHODS, get_method
        from ploff.agents.base import DISCRETE_METHODS

        console = Console(highlight=False, markup=False)
        if self.name is None:
            table = Table("method", "paper", "needs", box=None, pad_edge=False)
            for method in (*METHODS.values(), *DISCRETE_METHODS.values()):
                table.add_row(method.name, method.paper, NEEDS[method.distance])
            console.print(table)
            console.print("\n`ploff methods NAME` lists a method's settings; `ploff train --set` changes them.")
            return
        method = get_method(self.name)
        console.print(f"{method.name}: {method.paper}; needs {NEEDS[method.distance]}\n")
        table = Table("setting", "default", "", box=None, pad_edge=False)
        comments = setting_comments(method.config_type)
        for field in dataclasses.fields(method.config_type):
            table.add_row(field.name, _text(field.default), comments.get(field.name, ""))
        console.print(table)


def setting_comments(kind: type) -> dict[str, str]:
    """The comment behind each field of a dataclass and of those that it extends, as the source has it."""
    comments: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if dataclasses.is_dataclass(each):
            comments |= _comments_in(inspect.getsource(each))
    return comments


def _comments_in(source: str) -> dict[str, str]:
    found, lines = {}, source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            name, colon, _ = lines[token.start[0] - 1][: token.start[1]].strip().partition(":")
            if colon and name.isidentifier():
                found[name] = token.string.lstrip("# ")
    return found


def _text(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
