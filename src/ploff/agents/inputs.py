"""What a policy is called with: an array, a list, a frame, or a mapping from columns to values."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ploff.datasets.table import as_table
from ploff.schema import Schema, raw_values
from ploff.utils.errors import PloffError

SOURCE = "the policy's input"


def read_observations(given: Any, schema: Schema | None) -> Any:
    """Observations [B, …] of columns by name; anything else passes as it is.

    Args:
      given: an array, a list, or columns by name (a mapping, a list of mappings, a frame).
      schema: the columns that the policy was trained on, if it knows them.
    """
    if not is_named(given):
        return given
    schema = known_schema(schema)
    return schema.encode(as_columns(given, schema), source=SOURCE, place=place)


def is_named(given: Any) -> bool:
    """Whether columns come with their names."""
    if isinstance(given, list | tuple):
        return len(given) > 0 and isinstance(given[0], Mapping)
    return isinstance(given, Mapping) or hasattr(given, "__arrow_c_stream__") or hasattr(given, "__dataframe__")


def known_schema(schema: Schema | None) -> Schema:
    """The schema, without which names mean nothing."""
    if schema is None:
        raise PloffError("this policy was trained on arrays and knows no columns; give it an array")
    return schema


def as_columns(given: Any, schema: Schema) -> pa.Table:
    """The schema's columns of what was given; further ones are left out, one that is not there is refused."""
    if isinstance(given, list | tuple):
        given = {feature.name: [row.get(feature.name, ABSENT) for row in given] for feature in schema.features}
        given = {name: values for name, values in given.items() if not any(value is ABSENT for value in values)}
    present = given if isinstance(given, Mapping) else as_table(given).column_names
    lacking = [feature.name for feature in schema.features if feature.name not in present]
    if lacking:
        raise PloffError(
            f"{SOURCE} lacks {', '.join(map(repr, lacking))}; this policy reads "
            f"{', '.join(feature.name for feature in schema.features)}"
        )
    if not isinstance(given, Mapping):
        return as_table(given)
    ranks = {np.ndim(given[feature.name]) - (feature.kind == "list") for feature in schema.features}
    rows = {f.name: [given[f.name]] if ranks == {0} else given[f.name] for f in schema.features}
    try:
        return pa.table({name: _column(values) for name, values in rows.items()})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise PloffError(f"{SOURCE} cannot be read as columns of equal length: {error}") from None


ABSENT = object()  # in a row that does not have the column at all


def _column(values: Any) -> pa.Array:
    array = np.asarray(values)
    return pa.array(array if array.dtype.kind in "fiub" and array.ndim == 1 else list(values))


def place(row: int) -> str:
    """How messages call a row."""
    return f"row {row}"


class EpisodePolicy:
    """A policy through one episode: a value that is missing is the last one of its column, as `hold` learned it."""

    def __init__(self, act: Callable[[Any], Any], schema: Schema | None):
        self._act, self._schema = act, known_schema(schema)
        self._last: np.ndarray | None = None

    def __call__(self, observations: Any) -> Any:
        """The actions in the next steps of the episode, which are given by column."""
        schema = self._schema
        columns = as_columns(observations, schema)
        values = raw_values(schema.features, columns, source=SOURCE, place=place)
        before = values[:0] if self._last is None else self._last
        values = np.concatenate([before, values]).astype(np.result_type(values, np.float32))
        starts = np.zeros(len(values), bool)
        starts[:1] = True
        encoded = schema.encode_raw(values, source=SOURCE, place=place, starts=starts)
        self._last = values[-1:]  # filled where it had gaps
        return self._act(encoded[len(before) :])
