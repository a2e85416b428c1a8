"""A suite: which methods are run on which tasks, how long and how often. `ploff train` makes one of a single cell.

name = "quick"
tasks = ["sample"]              # names that `ploff data list` shows, or files
seeds = 3                       # how many, or a list of them
steps = 10_000                  # and evaluate_every, episodes, last_evaluations, metric_steps, preset
metric_per_seed = true          # each seed learns a metric of its own; by default they share one

[methods.ploff]                 # a column of the table: the method of that name with its defaults
[methods."no critic bonus"]     # or any method, under another name, with other settings
method = "ploff"
settings = { critic_bonus_weight = 0.0 }
families.hand = { actor_bonus_weight = 10.0 }         # settings for one family of tasks only
datasets.hopper-medium = { actor_bonus_weight = 3.0 } # settings for one dataset only
metric = { action_weight = 0.0 }                      # settings of the metric that this column measures by
relevance = false                                     # see all columns alike, not the coordinates that matter
metric_steps = 1                                      # how long that metric is learned at most
metric_seed = 1                                       # the seed of the metric that this column's runs share
paper = "PLOff"                                       # the column of the paper's Table 1 to stand beside it

[search]                        # settings to be chosen by their scores first; see ploff.experiments.search
"""

import dataclasses
import os
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any, Literal

from ploff.agents import get_method
from ploff.datasets.catalog import family_of
from ploff.datasets.sources import short_name
from ploff.datasets.validate import check_file
from ploff.environments import Physics
from ploff.experiments.config import LAST_EVALUATIONS, Preset, check_preset, method_config
from ploff.tasks import Family
from ploff.utils.config import structure, to_plain
from ploff.utils.errors import PloffError, UnknownNameError

FIRST_SEARCH_SEED = 1_000  # settings are not chosen on the seeds that they are then judged by


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A method with its settings, as one column of the table."""

    name: str
    method: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    families: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    datasets: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    metric: dict[str, Any] = dataclasses.field(default_factory=dict)
    metric_steps: int | None = None  # the suite's, unless it is given
    metric_seed: int = 0  # seeds the metric that all runs of the column share
    preset: Preset | None = None  # the suite's, unless it is given
    relevance: bool | None = None  # see the coordinates that matter; the suite's, unless it is given
    paper: str | None = None

    def settings_for(self, task: str) -> dict[str, Any]:
        """The settings on one task: a dataset's own beat its family's, these the column's."""
        name = short_name(task)
        return {**self.settings, **self.families.get(family_of(name), {}), **self.datasets.get(name, {})}

    def with_chosen(self, family: str, settings: Mapping[str, Any]) -> "Column":
        """The column with other settings on a family's tasks."""
        changed = {**self.families.get(family, {}), **settings}
        return dataclasses.replace(self, families={**self.families, family: changed})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """Which settings of which columns are chosen, and how."""

    columns: tuple[str, ...]
    space: dict[str, list[Any]]  # values of each setting; every combination is a candidate
    kind: str = "grid"  # "grid": all to the end; "halving": the worse stop early
    seeds: int = 3
    first_steps: int | None = None  # of halving: how far all candidates go
    factor: int = 3  # of halving: one of so many goes on, so many times further

    def __post_init__(self):
        if self.kind not in ("grid", "halving"):
            raise UnknownNameError("kind of search", self.kind, ("grid", "halving"))
        if self.kind == "halving" and (self.first_steps is None or self.first_steps < 1 or self.factor < 2):
            raise PloffError("a search by halving needs first_steps of at least 1 and a factor of at least 2")
        if self.seeds < 1 or not self.space or not all(self.space.values()):
            raise PloffError("a search needs a space with values for each setting, and at least one seed")

    @property
    def search_seeds(self) -> tuple[int, ...]:
        """Seeds that the table does not use."""
        return tuple(range(FIRST_SEARCH_SEED, FIRST_SEARCH_SEED + self.seeds))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suite:
    """What is to be run."""

    name: str
    tasks: tuple[str, ...]
    columns: tuple[Column, ...]
    about: str = ""
    seeds: tuple[int, ...] = tuple(range(10))
    preset: Preset = "default"
    steps: int | None = None  # the preset's, unless it is given; so are the next four
    evaluate_every: int | None = None
    episodes: int | None = None
    last_evaluations: int | None = None  # whose mean is a run's score
    metric_steps: int | None = None
    metric_per_seed: bool = False  # each run learns the metric anew from its own seed, instead of sharing one
    hold_out: float | None = None  # share of the episodes kept from training
    select: Literal["last", "judge"] | None = None  # which policy of a run is kept
    metric: dict[str, Any] = dataclasses.field(default_factory=dict)
    relevance: bool | None = None  # see the coordinates that matter; by default as each method does
    metric_from: str | None = None  # a folder whose metric is shared, instead of learning one
    reading: dict[str, Any] = dataclasses.field(default_factory=dict)  # keywords of `ploff.load`
    environment: str | None = None  # where policies are evaluated; by default where a log comes from
    physics: Physics | None = None
    logger: str | None = None  # "tensorboard" or "wandb", beside the CSV files
    scored: bool = True  # whether every task must have an environment with reference scores
    neighbor_parts: int = 4  # that a search for neighbors is divided into
    search: Search | None = None

    def __post_init__(self):
        if not (self.tasks and self.columns and self.seeds) or self.neighbor_parts < 1:
            raise PloffError(f"suite {self.name!r} needs tasks, methods, seeds, and at least one part of neighbors")
        if self.num_last < 1:
            raise PloffError(f"suite {self.name!r}: last_evaluations must be at least 1, got {self.last_evaluations}")
        for column in self.columns:
            for task in self.tasks:
                self.config_of(column, task)
        for name in self.search.columns if self.search else ():
            self.column(name)

    def column(self, name: str) -> Column:
        """The column of that name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise UnknownNameError("method of the suite", name, [column.name for column in self.columns])

    def uses_relevance(self, column: Column) -> bool:
        """Whether a column's learners see observations in the coordinates that matter."""
        given = self.relevance if column.relevance is None else column.relevance
        printed = (column.preset or self.preset) == "paper"  # the paper has nothing of the kind
        return get_method(column.method).relevance and not printed if given is None else given

    def config_of(self, column: Column, task: str, changes: Mapping[str, Any] | None = None) -> Any:
        """The configuration of a column's method on a task; `changes` are settings that differ from the column's."""
        settings = {**column.settings_for(task), **(changes or {})}
        return method_config(get_method(column.method), column.preset or self.preset, settings, task_family(task))

    @property
    def num_last(self) -> int:
        """How many of a run's last evaluations its score is the mean of."""
        return LAST_EVALUATIONS[self.preset] if self.last_evaluations is None else self.last_evaluations

    @property
    def families(self) -> dict[str, list[str]]:
        """The tasks by family."""
        families: dict[str, list[str]] = {}
        for task in self.tasks:
            families.setdefault(task_family(task), []).append(task)
        return families

    @property
    def notes(self) -> list[str]:
        """What is to be said of the settings: printed weights are of a family, and a task may be of none."""
        unknown = self.families.get("other", [])
        names = [column.name for column in self.columns if unknown and self._depends_on_family(column)]
        tasks = ", ".join(map(short_name, unknown))
        return [f"{name} has the paper's weights for locomotion on {tasks}: no other family is known" for name in names]

    def _depends_on_family(self, column: Column) -> bool:
        """Whether the preset says something else for another family of tasks."""
        method, preset = get_method(column.method), column.preset or self.preset
        own = [method_config(method, preset, column.settings, family) for family in ("locomotion", "hand")]
        return own[0] != own[1]


def task_family(task: str) -> Family:
    """The family of a task, by its name."""
    return family_of(short_name(task))


def read_suite(path: str | os.PathLike[str]) -> Suite:
    """The suite in a file; what is wrong with it is said in one line."""
    path = pathlib.Path(path)
    check_file(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise PloffError(f"{path} is not valid TOML: {error}") from None
    try:
        return parse_suite({"name": path.stem, **content})
    except PloffError as error:
        raise PloffError(f"{path}: {error}") from None


def parse_suite(content: Mapping[str, Any]) -> Suite:
    """A suite from a TOML file's content."""
    given = dict(content)
    seeds = given.pop("seeds", 10)
    check_preset(given.get("preset", "default"))
    given["columns"] = [_column(name, table) for name, table in given.pop("methods", {}).items()]
    given["seeds"] = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    given.setdefault("tasks", ())
    if search := given.pop("search", None):
        given["search"] = structure(Search, {"columns": (), "space": {}, **search}, "key of search")
    return structure(Suite, given, "key of suite")


def suite_to_plain(suite: Suite) -> dict[str, Any]:
    """A suite as `parse_suite` reads it."""
    content = to_plain(suite)
    columns = content.pop("columns")
    content["methods"] = {column.pop("name"): column for column in columns}
    return content


def _column(name: str, table: Mapping[str, Any]) -> Column:
    check_preset(table.get("preset") or "default")
    return structure(Column, {"name": name, "method": name, **table}, f"key of method {name!r}")
