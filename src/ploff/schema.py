"""What the numbers of an observation are called, and how a table's columns become them.

A `Feature` is one column: a number, a list of numbers, or a category, which becomes one number per known value up to
`ONE_HOT` of them and a code of `CODE_WIDTH` signs above. A value that was never seen is zeros: an index of its own, in
the range that a network knows. The schema goes with the data into the policy, which reads the same columns again when
it acts.

Shapes: B rows, F columns with lists laid out, S numbers of an observation.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Num

from ploff.utils.arrays import empty_aligned
from ploff.utils.arrow import compute as pc
from ploff.utils.errors import DataError

ONE_HOT = 64  # categories that get a number each
CODE_WIDTH = 16  # signs that stand for a category where there are more
UNSEEN = -1  # index of a category that the data never had
BLOCK_ROWS = 65_536

Missing = Literal["refuse", "hold", "mean+flag"]
Kind = Literal["number", "list", "category"]
Place = Callable[[int], str]  # how messages call a row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """One column of a table as observations hold it."""

    name: str
    kind: Kind = "number"
    width: int = 1  # of a list
    categories: tuple[str, ...] = ()  # that the data had, as text
    fill: float = 0.0  # stands for a value that is missing and cannot be held: the mean, or UNSEEN
    flagged: bool = False  # one more number says whether the value was missing

    @property
    def size(self) -> int:
        """How many numbers of an observation it takes."""
        return self._coded_width + self.flagged

    @property
    def components(self) -> tuple[str, ...]:
        """What each of these numbers is called."""
        if self.kind == "list":
            names = [f"{self.name}[{i}]" for i in range(self.width)]
        elif self.kind == "number":
            names = [self.name]
        elif len(self.categories) <= ONE_HOT:
            names = [f"{self.name}={category}" for category in self.categories]
        else:
            names = [f"{self.name} (code {i})" for i in range(CODE_WIDTH)]
        return (*names, *([f"{self.name} is missing"] if self.flagged else []))

    @property
    def _coded_width(self) -> int:
        if self.kind != "category":
            return self.width
        return len(self.categories) if len(self.categories) <= ONE_HOT else CODE_WIDTH


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema:
    """The columns of observations and actions, with all that it takes to read them again."""

    features: tuple[Feature, ...]
    missing: Missing = "refuse"
    actions: tuple[str, ...] = ()  # the columns of actions
    choices: tuple[str, ...] = ()  # what discrete actions are called, by their number

    @property
    def size(self) -> int:
        """S: how many numbers an observation has."""
        return sum(feature.size for feature in self.features)

    @property
    def components(self) -> tuple[str, ...]:
        """What each number of an observation is called."""
        return tuple(name for feature in self.features for name in feature.components)

    @property
    def width(self) -> int:
        """F: the columns, each number of a list counted."""
        return sum(feature.width for feature in self.features)

    def encode(
        self, columns: pa.Table, *, source: str, place: Place, starts: Bool[np.ndarray, "B"] | None = None
    ) -> Num[np.ndarray, "B S"]:
        """Observations from the columns of a table.

        Args:
          columns: has every feature's column, by name.
          source: how messages call the table.
          place: how messages call a row.
          starts: where an episode begins, for `missing="hold"`; without it a missing value is refused there.
        """
        values = raw_values(self.features, columns, source=source, place=place)
        return self.encode_raw(values, source=source, place=place, starts=starts)

    def encode_raw(
        self,
        values: Num[np.ndarray, "B F"],
        *,
        source: str,
        place: Place,
        starts: Bool[np.ndarray, "B"] | None = None,
    ) -> Num[np.ndarray, "B S"]:
        """Fills what is missing (NaN) and lays categories out; plain numbers stay the array that they are."""
        if _is_finite(values) and self._is_plain:
            return values
        gaps = _gaps(values)
        refused = self.missing == "refuse" or (self.missing == "hold" and starts is None)
        unforeseen = [name for name in self._names_of(gaps) if refused or self._is_unforeseen(name)]
        if unforeseen:
            raise DataError(_missing_message(source, values, self, unforeseen, place))
        absent = {column: np.isnan(values[:, column]) for column in np.flatnonzero(gaps).tolist()}
        for column, rows in absent.items():
            fill = self._feature_of(column).fill
            if self.missing == "hold":
                assert starts is not None
                values[:, column] = held(values[:, column], starts, fill)
            else:
                values[rows, column] = fill
        _refuse_infinite(source, values, self, place)
        if self._is_plain:
            return values
        return np.concatenate(list(self._laid_out(values, absent)), axis=1)

    @property
    def _is_plain(self) -> bool:
        """Whether every number of an observation is one of a column as it stands."""
        return all(feature.kind != "category" and not feature.flagged for feature in self.features)

    def _laid_out(self, values: np.ndarray, absent: Mapping[int, np.ndarray]) -> Iterator[np.ndarray]:
        start = 0
        for feature in self.features:
            own = values[:, start : start + feature.width]
            if feature.kind == "category":
                yield codes(feature.categories).astype(values.dtype)[own[:, 0].astype(np.int64)]
            else:
                yield own
            if feature.flagged:
                yield absent.get(start, np.zeros(len(values), bool))[:, None].astype(values.dtype)
            start += feature.width

    def _feature_of(self, column: int) -> Feature:
        owners = [feature for feature in self.features for _ in range(feature.width)]
        return owners[column]

    def _names_of(self, chosen: np.ndarray) -> list[str]:
        return list(dict.fromkeys(self._feature_of(column).name for column in np.flatnonzero(chosen).tolist()))

    def _is_unforeseen(self, name: str) -> bool:
        """With flags, whether the data never lacked this column: no number could say that it is missing."""
        feature = next(feature for feature in self.features if feature.name == name)
        return feature.kind == "list" or (self.missing == "mean+flag" and not feature.flagged)


def raw_values(features: Sequence[Feature], columns: pa.Table, *, source: str, place: Place) -> Num[np.ndarray, "B F"]:
    """The columns side by side: numbers as they are, categories by index, NaN where a value is missing."""
    columns = columns.select([feature.name for feature in features])
    kinds = [raw_type(feature, columns.column(feature.name)) for feature in features]
    values = empty_aligned((len(columns), sum(feature.width for feature in features)), np.result_type(*kinds))
    row = 0
    for batch in columns.to_batches(max_chunksize=BLOCK_ROWS):
        start = 0
        for feature, column in zip(features, batch.columns, strict=True):
            part = values[row : row + len(batch), start : start + feature.width]
            _write(part, feature, column, source, lambda i, row=row: place(row + i))
            start += feature.width
        row += len(batch)
    return values


def raw_type(feature: Feature, column: pa.ChunkedArray) -> np.dtype:
    """The least NumPy type that holds a column's values, and NaN where some are missing."""
    kind = column.type.value_type if is_list(column.type) else column.type
    if feature.kind == "category" or not is_number(kind) or pa.types.is_decimal(kind):
        return np.dtype(np.float32)
    plain = np.dtype(kind.to_pandas_dtype())
    return np.result_type(plain, np.float32) if column.null_count and plain.kind != "f" else plain


def _write(part: np.ndarray, feature: Feature, column: pa.Array, source: str, place: Place) -> None:
    """Writes a block of a column into its place."""
    if feature.kind == "category":
        found = pc.index_in(as_text(column), value_set=pa.array(feature.categories, pa.string()))
        index = found.fill_null(UNSEEN).to_numpy(zero_copy_only=False).astype(part.dtype)
        part[:, 0] = np.where(np.asarray(column.is_null()), np.nan, index) if column.null_count else index
    elif feature.kind == "list":
        part[:] = list_values(column, feature, source, place)
    else:
        part[:, 0] = numbers(column, feature.name, source, place)


def numbers(column: pa.Array, name: str, source: str, place: Place) -> np.ndarray:
    """A column's numbers; flags are 0 and 1, what is missing is NaN."""
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan, np.float32)
    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float32() if pa.types.is_boolean(column.type) else pa.float64())
    if not is_number(column.type):
        raise DataError(f"{source}: {not_a_number(column, name, place)}")
    return column.to_numpy(zero_copy_only=False)


def not_a_number(column: pa.Array | pa.ChunkedArray, name: str, place: Place) -> str:
    """What stands where a number should, where, and what helps."""
    if not is_text(column.type):
        return f"column {name!r} holds {column.type} where numbers are expected; --ignore {name} leaves it out"
    texts = as_text(column)
    readable = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    odd = np.flatnonzero(~np.asarray(readable.fill_null(True)))
    first = int(odd[0]) if len(odd) else 0
    text = texts[first].as_py()
    comma = isinstance(text, str) and text.count(",") == 1 and text.replace(",", "").lstrip("+-").isdigit()
    remedy = "give --decimal ," if comma else "mend it, leave the cell empty if the number is missing"
    other = f"; --categorical {name} makes it a category" if not comma else ""
    return f"column {name!r} holds text where numbers are expected, first {text!r} in {place(first)}; {remedy}{other}"


def list_values(
    column: pa.Array, feature: Feature, source: str, place: Place, *, gaps: bool = False
) -> Num[np.ndarray, "B width"]:
    """A column's lists, which are all of one length; zeros where one is missing, if there may be `gaps`."""
    lengths = np.asarray(pc.list_value_length(column).fill_null(-1))
    odd = np.flatnonzero((lengths != feature.width) & ~((lengths == -1) & gaps))
    if len(odd):
        raise DataError(
            f"{source}: the lists in column {feature.name!r} differ in length, or some are missing: "
            f"{place(int(odd[0]))} has {max(int(lengths[odd[0]]), 0)} numbers where others have {feature.width}"
        )
    logged = np.asarray(column.flatten())  # without those that are missing
    values = np.zeros((len(column), feature.width), logged.dtype)
    values[lengths >= 0] = logged.reshape(int((lengths >= 0).sum()), feature.width)
    return values


def held(values: Float[np.ndarray, "B"], starts: Bool[np.ndarray, "B"], fill: float) -> Float[np.ndarray, "B"]:
    """Each missing value replaced by the last one of its episode; by `fill` where there was none yet."""
    rows = np.arange(len(values))
    known = np.maximum.accumulate(np.where(np.isnan(values), -1, rows))
    begun = np.maximum.accumulate(np.where(starts, rows, 0))
    return np.where(known >= begun, values[np.maximum(known, 0)], fill).astype(values.dtype)


@functools.lru_cache(maxsize=256)
def codes(categories: tuple[str, ...]) -> Float[np.ndarray, "K+1 width"]:
    """What stands for each category, and zeros in the last row for one that is none of them.

    Above `ONE_HOT` categories the code is a row of signs drawn from the category's own name, divided by √width: of
    length 1, and nearly at right angles to the others.
    """
    if len(categories) <= ONE_HOT:
        return np.concatenate([np.eye(len(categories)), np.zeros((1, len(categories)))]).astype(np.float32)
    digests = [hashlib.blake2b(category.encode(), digest_size=CODE_WIDTH // 8).digest() for category in categories]
    bits = np.unpackbits(np.frombuffer(b"".join(digests), np.uint8)).reshape(-1, CODE_WIDTH)
    signs = (2.0 * bits - 1.0) / np.sqrt(CODE_WIDTH)
    return np.concatenate([signs, np.zeros((1, CODE_WIDTH))]).astype(np.float32)


def _is_finite(values: np.ndarray) -> bool:
    """Whether nothing is missing or infinite, at one look."""
    blocks = (values[start : start + BLOCK_ROWS] for start in range(0, len(values), BLOCK_ROWS))
    return values.dtype.kind != "f" or all(bool(np.isfinite(block).all()) for block in blocks)


def _gaps(values: np.ndarray) -> np.ndarray:
    """Which columns have NaN."""
    found = np.zeros(values.shape[1], bool)
    if values.dtype.kind == "f":
        for start in range(0, len(values), BLOCK_ROWS):
            found |= np.isnan(values[start : start + BLOCK_ROWS]).any(axis=0)
    return found


def _missing_message(source: str, values: np.ndarray, schema: Schema, names: Sequence[str], place: Place) -> str:
    """Which columns lack values, how many, and where first."""
    parts, start = [], 0
    for feature in schema.features:
        rows = np.flatnonzero(np.isnan(values[:, start : start + feature.width]).any(axis=1))
        start += feature.width
        if feature.name in names:
            parts.append(f"{len(rows)} of {feature.name!r} (first in {place(int(rows[0]))})")
    what = f"{source} lacks values: {', '.join(parts)}"
    if schema.missing == "mean+flag":
        return f"{what}; the data never lacked them, so no flag can say so"
    if schema.missing == "hold":
        return f"{what}; `policy.episode()` holds the last value as it acts"
    return f"{what}; --missing hold takes the episode's last value, --missing mean+flag the mean and a flag"


def _refuse_infinite(source: str, values: np.ndarray, schema: Schema, place: Place) -> None:
    if values.dtype.kind != "f":
        return
    for start in range(0, len(values), BLOCK_ROWS):
        block = values[start : start + BLOCK_ROWS]
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0]
            name = schema._feature_of(int(column)).name
            raise DataError(
                f"{source}: column {name!r} is {block[row, column]} in {place(start + int(row))}; repair or drop "
                "that episode"
            )


# Kinds of columns.


def is_list(kind: pa.DataType) -> bool:
    """Lists, each of them a vector."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_number(kind: pa.DataType) -> bool:
    """Whole numbers and fractions; flags are none."""
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)


def is_text(kind: pa.DataType) -> bool:
    """Text, or a dictionary of it."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_time(kind: pa.DataType) -> bool:
    """Times and dates."""
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def as_text(column: Any) -> Any:
    """A column's values as text; 3 and 3.0 are the same, since a gap makes whole numbers fractions on their way."""
    return column.cast(pa.string())
