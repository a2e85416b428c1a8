import numpy as np
import pyarrow as pa
import pytest

from ploff.schema import CODE_WIDTH, Feature, Schema, codes, held
from ploff.utils.errors import DataError

NAN = float("nan")


def encode(schema, columns, starts=None):
    return schema.encode(pa.table(columns), source="log.csv", place=lambda row: f"row {row}", starts=starts)


def test_a_missing_value_is_the_last_one_of_its_episode_and_else_the_filling():
    starts = np.asarray([True, False, False, True, False, False])
    values = np.asarray([NAN, 1.0, NAN, NAN, 2.0, NAN])
    np.testing.assert_array_equal(held(values, starts, 9.0), [9, 1, 1, 9, 2, 2])


def test_hold_and_flags_by_hand():
    columns = {"p": [1.0, None, 3.0], "mode": ["a", "b", None]}
    mode = Feature(name="mode", kind="category", categories=("a", "b"), fill=-1)
    hold = Schema(features=(Feature(name="p", fill=2.0), mode), missing="hold")
    starts = np.asarray([True, False, False])
    np.testing.assert_array_equal(encode(hold, columns, starts), [[1, 1, 0], [1, 0, 1], [3, 0, 1]])
    flagged = (Feature(name="p", fill=2.0, flagged=True), Feature(**{**vars(mode), "flagged": True}))
    schema = Schema(features=flagged, missing="mean+flag")
    assert schema.components == ("p", "p is missing", "mode=a", "mode=b", "mode is missing")
    np.testing.assert_array_equal(
        encode(schema, columns), [[1, 0, 1, 0, 0], [2, 1, 0, 1, 0], [3, 0, 0, 0, 1]]
    )  # fmt: skip


def test_what_is_missing_is_refused_by_column_count_and_first_row():
    schema = Schema(features=(Feature(name="p"), Feature(name="q"), Feature(name="r")))
    with pytest.raises(DataError) as caught:
        encode(schema, {"p": [1.0, None, None], "q": [1, 2, 3], "r": [None, 1, 2]})
    assert "log.csv lacks values: 2 of 'p' (first in row 1), 1 of 'r' (first in row 0); --missing hold" in str(
        caught.value
    )
    with pytest.raises(DataError, match="column 'q' is inf in row 2; repair"):
        encode(schema, {"p": [1.0, 2.0, 3.0], "q": [1.0, 2.0, np.inf], "r": [1, 2, 3]})


def test_a_column_that_never_lacked_a_value_has_no_flag_for_it():
    schema = Schema(features=(Feature(name="p", flagged=True), Feature(name="q")), missing="mean+flag")
    with pytest.raises(DataError, match=r"1 of 'q' \(first in row 0\); the data never lacked them"):
        encode(schema, {"p": [None], "q": pa.array([None], pa.float64())})


def test_few_categories_are_one_hot_and_one_never_seen_is_zeros():
    schema = Schema(features=(Feature(name="mode", kind="category", categories=("1", "2", "10")),))
    values = encode(schema, {"mode": [10, 3, 1]})
    np.testing.assert_array_equal(values, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(encode(schema, {"mode": [10.0, 3.5, 1.0]}), values)  # as pandas has whole numbers


def test_many_categories_have_codes_of_length_one_that_are_nearly_at_right_angles():
    names = tuple(f"valve {i}" for i in range(200))
    table = codes(names)
    assert table.shape == (201, CODE_WIDTH)
    np.testing.assert_allclose(np.linalg.norm(table[:-1], axis=1), 1, rtol=1e-6)
    assert not table[-1].any()
    cosines = table[:-1] @ table[:-1].T
    assert np.abs(cosines[~np.eye(200, dtype=bool)]).mean() < 0.25
    np.testing.assert_array_equal(codes(names[::-1])[0], table[199])  # its name alone decides


def test_plain_numbers_keep_their_type_and_lists_their_order():
    numbers = Schema(features=(Feature(name="a"), Feature(name="v", kind="list", width=2)))
    single = {"a": pa.array([1, 2], pa.float32()), "v": pa.array([[3, 4], [5, 6]], pa.list_(pa.float32()))}
    values = encode(numbers, single)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, [[1, 3, 4], [2, 5, 6]])
    assert encode(Schema(features=(Feature(name="a"),)), {"a": [1, 2]}).dtype == np.int64
    with pytest.raises(DataError, match=r"the lists in column 'v' differ in length.*row 1 has 1"):
        encode(numbers, {"a": [1, 2], "v": [[3, 4], [5]]})
