"""Writes the reference pages that follow from the code: the command line, and every configuration.

    python docs/generate_reference.py

A test compares the pages with what this writes, so that they cannot fall behind.
"""

import contextlib
import dataclasses
import io
import os
import pathlib
import re

os.environ["COLUMNS"] = "100"  # before anything asks for the width of the terminal

from ploff import cli
from ploff.agents import METHODS
from ploff.agents.online import OnlineTraining
from ploff.commands.methods import NEEDS, setting_comments
from ploff.experiments.config import AgentTraining
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining
from ploff.neighbors.knn import SearchConfig
from ploff.utils.config import to_plain

PLACE = pathlib.Path(__file__).parent / "reference"
DATA_COMMANDS = ("list", "show", "convert", "collect")
STAGES = {
    "Learning the metric": (MetricConfig, "`--set metric.NAME=VALUE`"),
    "How long the metric is learned": (MetricTraining, "`ploff.MetricTraining`"),
    "Searching for neighbors": (SearchConfig, "`ploff.neighbors.SearchConfig`"),
    "How long a policy is trained": (AgentTraining, "`--steps`, `--evaluate-every`, `--episodes`"),
    "Learning online, to collect data": (OnlineTraining, "`ploff data collect --train`"),
}


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    return {"command-line.md": command_line(), "configuration.md": configuration()}


def command_line() -> str:
    """The help of every command."""
    parts = ["# Command line", "`docs/generate_reference.py` makes this page of what `ploff COMMAND --help` prints."]
    for name in cli.COMMANDS:
        parts.append(f"## ploff {name}\n\n```text\n{help_of(name)}\n```")
        if name == "data":
            parts += [f"### ploff data {sub}\n\n```text\n{help_of(name, sub)}\n```" for sub in DATA_COMMANDS]
    return "\n\n".join(parts) + "\n"


def help_of(*command: str) -> str:
    """What a command prints when it is asked for help, without boxes."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        cli.main([*command, "--help"])
    lines = [re.sub(r"^[│╭╰|] ?|[│╮╯|]$", "", line).rstrip() for line in shown.getvalue().splitlines()]
    lines = [re.sub(r"^[─-]+ (.*?) [─-]+$", r"\1:", line) for line in lines]
    return "\n".join(line for line in lines if not re.fullmatch(r"[─-]+", line)).strip()


def configuration() -> str:
    """A table of settings for every configuration."""
    parts = [
        "# Configuration",
        "`docs/generate_reference.py` makes this page of the configurations in the code. A setting of a method is "
        "changed by `--set NAME=VALUE`, in a suite file by `settings = { NAME = VALUE }`, in Python by "
        "`settings={...}`. A setting's old name is refused, and the message has the new one.",
        "## Stages",
    ]
    parts += [f"### {title}\n\n{how}.\n\n{settings_table(kind)}" for title, (kind, how) in STAGES.items()]
    parts.append("## Methods")
    for method in METHODS.values():
        title = f"### {method.name}\n\n{method.paper}. It needs {NEEDS[method.distance]}."
        parts.append(f"{title}\n\n{settings_table(method.config_type)}")
    return "\n\n".join(parts) + "\n"


def settings_table(kind: type) -> str:
    """Each field with its default and the comment behind it."""
    comments, defaults = setting_comments(kind), to_plain(kind())
    rows = ["| setting | default | |", "|---|---|---|"]
    for field in dataclasses.fields(kind):
        about = comments.get(field.name, "").replace("|", r"\|")
        rows.append(f"| `{field.name}` | `{defaults[field.name]}` | {about} |")
    return "\n".join(rows)


if __name__ == "__main__":
    for file, text in pages().items():
        (PLACE / file).write_text(text, encoding="utf-8")
