"""The command line's commands, one file per command; see `ploff.cli`."""

from typing import Annotated, TypeVar

import tyro

Value = TypeVar("Value")
Unset = Annotated[Value | None, tyro.conf.arg(help_behavior_hint="")]  # help says nothing of a default of None
