"""The command line's commands, one file per command; see `ploff.cli`."""

from typing import Annotated, Literal, TypeVar

import tyro

Value = TypeVar("Value")
Switch = Literal["auto", "on", "off"]
SWITCH: dict[Switch, bool | None] = {"auto": None, "on": True, "off": False}
Unset = Annotated[Value | None, tyro.conf.arg(help_behavior_hint="")]  # help says nothing of a default of None
