"""Where logged data comes from, and what its columns are called."""

import dataclasses
from typing import Literal

from ploff.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a dataset comes from, as far as its file says."""

    name: str = "unnamed"  # what `ploff data show` calls it
    environment: str | None = None  # a name that `ploff.make_environment` knows, or a Gymnasium id
    physics: Literal["d4rl", "gymnasium"] = "gymnasium"  # whose physics its transitions obey
    reference_scores: tuple[float, float] | None = None  # returns that normalize to 0 and to 100
    options: str = "{}"  # JSON of the keywords, beside its name, with which the environment was made
    # (array, type, dimensions) where the file writes it otherwise than it is held here: flags as floats, say
    written_as: tuple[tuple[str, str, int], ...] = ()
    schema: Schema | None = None  # what a table's columns are called, and how observations come of them
