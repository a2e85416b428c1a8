"""Which column of a table is which field: by name, or as a person says."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from ploff.datasets import validate
from ploff.schema import Missing
from ploff.utils.config import check_choices
from ploff.utils.errors import DataError

CONVENTIONS = {  # names that a field goes by, the likeliest first
    "observations": ("observations", "observation", "obs", "states", "state"),
    "actions": ("actions", "action", "act"),
    "rewards": ("rewards", "reward"),
    "terminals": ("terminals", "terminal", "terminated", "termination", "dones", "done"),
    "timeouts": ("timeouts", "timeout", "truncated", "truncation"),
    "next_observations": ("next_observations", "next_observation", "next_obs", "next_states", "next_state"),
    "action_mask": ("action_mask", "action_masks", "legal"),
    "episodes": ("episodes", "episode", "episode_id", "trajectory", "trajectory_id"),
    "time": ("time", "timestamp", "datetime", "date"),
}
VECTORS = ("observations", "actions", "next_observations", "action_mask")
SINGLE = ("rewards", "terminals", "timeouts", "time")
FILE = "@file"  # in place of an episode column: every file is an episode
OTHERS = "*"  # in place of observations: every column that nothing else takes
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What a person says of a table, beside its columns."""

    more: tuple[str, ...] = ()  # further files, read behind the first
    reward: Mapping[str, float] = dataclasses.field(default_factory=dict)  # columns that sum to the reward, by weight
    ignore: tuple[str, ...] = ()  # columns that are left out
    categorical: tuple[str, ...] = ()  # columns whose numbers are names
    missing: Missing = "refuse"  # of observations: refuse, hold the last value, or the mean with a flag
    gap: str | None = None  # an episode ends where the next row comes later than this, as in 10min
    delimiter: str | None = None  # of a text file; by default a comma, in .tsv a tab
    decimal: str = "."  # between whole and fraction in a text file

    def __post_init__(self):
        check_choices(self)
        if self.decimal not in (".", ","):
            raise DataError(f"--decimal is . or a comma, got {self.decimal!r}")
        if self.gap is not None:
            seconds(self.gap)

    def given(self) -> list[str]:
        """The names of those that were given."""
        default = TableOptions()
        return [f.name for f in dataclasses.fields(self) if getattr(self, f.name) != getattr(default, f.name)]


def seconds(gap: str) -> float:
    """A length of time such as 10min; a number alone is in the time column's own unit."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)?", gap.strip())
    if match is None:
        raise DataError(f"--gap is a number with ms, s, min, h or d behind it, as in 10min; got {gap!r}")
    return float(match[1]) * SECONDS[match[2] or "s"]


def find_columns(
    source: str, present: Sequence[str], chosen: Mapping[str, Sequence[str]], options: TableOptions
) -> dict[str, list[str]]:
    """The columns of every field that the table has: the user's choice, else by convention.

    Args:
      source: how messages call the table.
      present: the table's columns.
      chosen: columns by field, as a person named them.
      options: which columns are the reward, which are left out, and whether a time column is needed.
    """
    unknown = sorted(set(chosen) - set(CONVENTIONS))
    if unknown:
        raise DataError(f"no field is called {unknown[0]!r}; fields are {', '.join(CONVENTIONS)}")
    validate.check_present(source, [*options.reward, *options.ignore, *options.categorical], present)
    left = [name for name in present if name not in options.ignore]
    found: dict[str, list[str]] = {}
    for field, conventions in CONVENTIONS.items():
        names = list(chosen.get(field, ()))
        if names != [OTHERS] or field != "observations":
            validate.check_present(source, [name for name in names if name != FILE], left, present)
        if len(names) > 1 and field in SINGLE:
            raise DataError(f"{source}: {field} is one column, got {', '.join(names)}; name one of them")
        if not names and field == "rewards" and options.reward:
            names = list(options.reward)
        elif not names and field == "time":
            names = _time_by_convention(source, left) if options.gap is not None else []
        elif not names:
            names = _by_convention(field, conventions, left)
            validate.check_numbering(source, names)
        if names:
            found[field] = names
    if found.get("observations") == [OTHERS]:
        taken = {name for field, names in found.items() if field != "observations" for name in names}
        found["observations"] = [name for name in left if name not in taken]
    for names in found.values():
        validate.check_columns(source, left, names)
    _refuse_shared(source, found, options)
    return found


def _refuse_shared(source: str, found: Mapping[str, Sequence[str]], options: TableOptions) -> None:
    """An action in the observation would tell the policy what it is to decide."""
    for name in found.get("actions", ()):
        if name in found.get("observations", ()):
            raise DataError(f"{source}: column {name!r} is named as an action and as an observation; name it once")
    if options.reward and found.get("rewards") != list(options.reward):
        raise DataError(f"{source}: the reward is named by --columns rewards=… and by --reward; name it once")


def _time_by_convention(source: str, present: Sequence[str]) -> list[str]:
    """The time column that a gap is measured in."""
    names = [name for name in present if name.lower() in CONVENTIONS["time"]]
    if len(names) > 1:
        raise DataError(
            f"{source} has two time columns, {names[0]!r} and {names[1]!r}; name one by --columns time=NAME"
        )
    if not names:
        raise DataError(f"{source} has no time column that --gap could be measured in; name it by --columns time=NAME")
    return names


def _by_convention(field: str, conventions: Sequence[str], present: Sequence[str]) -> list[str]:
    lower = {name.lower(): name for name in present}
    for convention in conventions:
        if convention in lower:
            return [lower[convention]]
        numbered = [name for name in lower if name.startswith(f"{convention}_")]
        if field in VECTORS and numbered:
            tails = {name: name.removeprefix(f"{convention}_") for name in numbered}
            if any(tail.isdigit() for tail in tails.values()):
                # action_logprob beside action_0 speaks of the action, but is no part of it
                numbered = sorted((n for n in numbered if tails[n].isdigit()), key=lambda name: int(tails[name]))
            return [lower[name] for name in numbered]
    return []
