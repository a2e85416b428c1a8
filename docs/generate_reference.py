"""Writes the reference pages that follow from the code: the command line, the API, and every configuration.

    python docs/generate_reference.py [FOLDER]

A test compares the pages with what this writes, so that they cannot fall behind.
"""

import ast
import contextlib
import dataclasses
import inspect
import io
import os
import pathlib
import re
import sys
import textwrap
from typing import Any

os.environ["COLUMNS"] = "100"  # before anything asks for the width of the terminal

import ploff
from ploff import cli
from ploff.agents import METHODS
from ploff.agents.base import DISCRETE_METHODS
from ploff.agents.online import OnlineTraining
from ploff.commands.methods import NEEDS, setting_comments
from ploff.experiments.config import AgentTraining
from ploff.judging import JudgeConfig
from ploff.judging.fqe import FQEConfig
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining
from ploff.neighbors.knn import SearchConfig
from ploff.utils.config import to_plain

PLACE = pathlib.Path(__file__).parent / "reference"
WIDTH = 118
WHOLE: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
SECTIONS = {"Args:": "Arguments", "Returns:": "Returns", "Raises:": "Errors", "Attributes:": "Attributes"}
DATA_COMMANDS = ("list", "show", "convert", "collect")
STAGES = {
    "Learning the metric": (MetricConfig, "`--set metric.NAME=VALUE`"),
    "How long the metric is learned": (MetricTraining, "`ploff.MetricTraining`"),
    "Searching for neighbors": (SearchConfig, "`ploff.neighbors.SearchConfig`"),
    "How long a policy is trained": (
        AgentTraining,
        "`--steps`, `--evaluate-every`, `--episodes`, `--hold-out`, `--select`",
    ),
    "Judging a policy": (JudgeConfig, "`ploff.JudgeConfig`"),
    "Fitted Q evaluation": (FQEConfig, "`ploff.judging.fqe.FQEConfig`"),
    "Learning online, to collect data": (OnlineTraining, "`ploff data collect --train`"),
}


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    return {"command-line.md": command_line(), "api.md": api(), "configuration.md": configuration()}


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


def api() -> str:
    """Every public name, with signature and docstring: functions, classes, errors."""
    public = {name: getattr(ploff, name) for name in ploff.__all__}
    classes = {name: value for name, value in public.items() if inspect.isclass(value)}
    errors = {name: value for name, value in classes.items() if issubclass(value, Exception)}
    about = "`docs/generate_reference.py` makes this page of the public names of `ploff` and their docstrings."
    parts = ["# API", about, "## Functions"]
    parts += [function_entry(name, value) for name, value in public.items() if name not in classes]
    parts.append("## Classes")
    parts += [class_entry(name, value) for name, value in classes.items() if name not in errors]
    parts.append("## Errors")
    parts += [f"### ploff.{name}\n\n{described(value.__doc__)}" for name, value in errors.items()]
    return "\n\n".join(parts) + "\n"


def function_entry(name: str, function: Any) -> str:
    """A function's section."""
    tree = parsed(function)
    assert isinstance(tree, ast.FunctionDef)
    return f"### ploff.{name}\n\n```text\n{signature(tree, f'ploff.{name}')}\n```\n\n{described(function.__doc__)}"


def class_entry(name: str, kind: type) -> str:
    """A class's section: its fields with their comments, and its public methods."""
    tree, comments = parsed(kind), setting_comments(kind)
    assert isinstance(tree, ast.ClassDef)
    parts = [f"### ploff.{name}", described(ast.get_docstring(tree))]
    fields = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
    if fields:
        parts.append("Fields:")
        parts.append("\n".join(item(written(node), comments.get(written(node.target), "")) for node in fields))
    methods = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    if methods:
        parts.append("Methods and properties:")
        parts.append("\n".join(item(method_name(node), summary(node)) for node in methods))
    return "\n\n".join(parts)


def method_name(tree: ast.FunctionDef) -> str:
    """A method's signature in one line; a property's name and type."""
    decorators = [written(decorator) for decorator in tree.decorator_list]
    if "property" in decorators:
        return f"{tree.name}: {written(tree.returns)}" if tree.returns else tree.name
    return signature(tree, tree.name, bound="staticmethod" not in decorators, lines=False)


def signature(tree: ast.FunctionDef, name: str, *, bound: bool = False, lines: bool = True) -> str:
    """A function's signature as the source has it; one parameter per line where it is long and `lines` are allowed."""
    given = [*tree.args.posonlyargs, *tree.args.args]
    defaults = [None] * (len(given) - len(tree.args.defaults)) + tree.args.defaults
    parameters = [parameter(*pair) for pair in zip(given, defaults, strict=True)][bound:]
    if tree.args.vararg or tree.args.kwonlyargs:
        parameters.append(f"*{parameter(tree.args.vararg) if tree.args.vararg else ''}")
    parameters += [parameter(*pair) for pair in zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True)]
    if tree.args.kwarg:
        parameters.append(f"**{parameter(tree.args.kwarg)}")
    end = f" -> {written(tree.returns)}" if tree.returns else ""
    short = f"{name}({', '.join(parameters)}){end}"
    if not lines or len(short) <= WIDTH:
        return short
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){end}"])


def parameter(tree: ast.arg, default: ast.expr | None = None) -> str:
    """A parameter with its type and its default."""
    kind = f": {written(tree.annotation)}" if tree.annotation else ""
    equals = " = " if kind else "="
    return f"{tree.arg}{kind}{equals}{written(default)}" if default else f"{tree.arg}{kind}"


def described(docstring: str | None) -> str:
    """A docstring in Markdown: its sections (Args, Returns, Raises, …) as lists."""
    parts = []
    for block in re.split(r"\n\n+", inspect.cleandoc(docstring or "")):
        title, _, inside = block.partition("\n")
        if title not in SECTIONS:
            parts.append(textwrap.fill(block, WIDTH))
            continue
        entries = re.split(r"\n(?=\S)", textwrap.dedent(inside))
        if title == "Returns:":
            parts.append(textwrap.fill(f"Returns: {' '.join(inside.split())}", WIDTH))
        else:
            parts.append(f"{SECTIONS[title]}:")
            parts.append("\n".join(item(*re.split(r":\s+", entry, maxsplit=1)) for entry in entries))
    return "\n\n".join(parts)


def summary(tree: ast.FunctionDef) -> str:
    """The first paragraph of a docstring."""
    return (ast.get_docstring(tree) or "").split("\n\n")[0]


def item(name: str, text: str) -> str:
    """One item of a list: code, and what it means."""
    line = " ".join(f"- `{name}`: {text}".split()) if text else f"- `{name}`"
    return textwrap.fill(line, WIDTH, subsequent_indent="  ", **WHOLE)


def parsed(value: Any) -> ast.stmt:
    """The syntax tree of a function or a class."""
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def written(tree: ast.AST) -> str:
    """Code as text, with double quotes; a type that is named in quotes is named without."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str) and tree.value in ploff.__all__:
        return tree.value
    return ast.unparse(tree).replace("'", '"')


def configuration() -> str:
    """A table of settings for every configuration."""
    parts = [
        "# Configuration",
        textwrap.fill(
            "`docs/generate_reference.py` makes this page of the configurations in the code. A setting of a method is "
            "changed by `--set NAME=VALUE`, in a suite file by `settings = { NAME = VALUE }`, in Python by "
            "`settings={...}`. A setting's old name is refused, and the message has the new one.",
            WIDTH,
        ),
        "## Stages",
    ]
    parts += [f"### {title}\n\n{how}.\n\n{settings_table(kind)}" for title, (kind, how) in STAGES.items()]
    parts.append("## Methods")
    for method in (*METHODS.values(), *DISCRETE_METHODS.values()):
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
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    for file, text in pages().items():
        (folder / file).write_text(text, encoding="utf-8")
