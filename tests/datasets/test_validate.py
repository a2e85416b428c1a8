import re

import numpy as np
import pytest

from data_cases import changed, file_with, make_rows, refusal, write_hdf5
from ploff import datasets
from ploff.utils.errors import DataError, PloffWarning


def test_a_missing_file_is_named_with_the_nearest(tmp_path):
    file_with(tmp_path)
    assert "did you mean" in refusal(tmp_path / "hopper-medum-v2.hdf5")
    assert "hopper-medium-v2.hdf5" in refusal(tmp_path / "hopper-medum-v2.hdf5")
    assert "check the path" in refusal(tmp_path / "nowhere" / "x.npz")


def test_a_folder_is_not_a_file(tmp_path):
    file_with(tmp_path)
    message = refusal(tmp_path)
    assert "is a folder where a file is expected; it holds hopper-medium-v2.hdf5" in message


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "hopper.hdf5").touch()
    assert "is empty (0 bytes)" in refusal(tmp_path / "hopper.hdf5")


def test_missing_arrays_are_named_with_those_that_are_there(tmp_path):
    message = refusal(file_with(tmp_path, rewards=None, terminals=None))
    assert "lacks rewards, terminals; it holds actions, infos, next_observations, observations, timeouts" in message


def test_arrays_of_different_lengths_are_refused(tmp_path):
    path = file_with(tmp_path, actions=np.zeros((259, 3), np.float32))
    assert "actions has 259 rows but rewards has 260" in refusal(path)
    path = file_with(tmp_path, next_observations=np.zeros((260, 4), np.float32))
    assert "next_observations has shape (260, 4), observations (260, 5)" in refusal(path)
    path = file_with(tmp_path, **{"infos/qpos": np.zeros((7, 2))})
    assert "infos/qpos has 7 rows but rewards has 260" in refusal(path, infos=True)


def test_a_file_without_rows_is_refused(tmp_path):
    rows = make_rows("hopper", successors=True)
    path = write_hdf5(
        tmp_path / "hopper.hdf5",
        {key: values[:0] for key, values in rows.items()},
        chunks=None,
        compression=None,
    )
    assert "holds no transitions" in refusal(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["observations", "actions", "rewards"])
def test_values_that_are_not_finite_are_counted_and_located(field, value, tmp_path):
    changes = changed(field, 17, value)
    number = 1 if field == "rewards" else changes[field].shape[1]
    message = refusal(file_with(tmp_path, **changes))
    assert f"{field} holds {number} NaN or infinite value" in message
    assert f"first {value} in row 17" in message


def test_a_successor_that_is_not_finite_is_located_by_its_transition(tmp_path):
    message = refusal(file_with(tmp_path, **changed("next_observations", 79, np.nan)))
    assert "next_observations holds 5 NaN or infinite values, first nan in row 79" in message


def test_actions_outside_the_bounds_are_counted_and_located(tmp_path):
    message = refusal(file_with(tmp_path, **changed("actions", (8, 1), 1.5)))
    assert "actions[8, 1] is 1.5, outside [-1, 1]; 1 values are; clip them, or give --action-low" in message
    path = file_with(tmp_path, **changed("actions", (8, 1), 1.5))
    assert len(datasets.load(path, action_low=-1, action_high=2)) == 260


def test_rounding_does_not_put_an_action_outside(tmp_path):
    assert len(datasets.load(file_with(tmp_path, **changed("actions", (8, 1), 1.0000001)))) == 260


def test_choices_outside_their_number_are_refused(tmp_path):
    path = file_with(tmp_path, actions=np.arange(260) % 4)
    assert "actions[3] is 3, outside 0 … 2" in refusal(path, choices=3)


def test_a_log_without_any_end_is_refused_until_a_horizon_is_given(tmp_path):
    none = np.zeros(260, bool)
    path = file_with(tmp_path, terminals=none, timeouts=none)
    message = refusal(path)
    assert "no row is marked terminal or timeout" in message
    assert "give --horizon N, the length of an episode (260 if it is one recording)" in message
    assert len(datasets.load(path, horizon=260).episode_ends()) == 1
    with pytest.raises(DataError, match="at least 1"):
        datasets.load(path, horizon=0)


def test_flags_are_0_or_1(tmp_path):
    message = refusal(file_with(tmp_path, terminals=np.linspace(0, 1, 260)))
    assert re.search(r"terminals\[1\] is 0\.0038.*; a flag is 0 or 1", message)
    message = refusal(file_with(tmp_path, terminals=np.zeros((260, 2), bool)))
    assert "terminals has shape (260, 2); it needs one value per row" in message


def test_equal_rewards_are_worth_a_warning(tmp_path):
    with pytest.warns(PloffWarning, match="every reward is 0.5; they say nothing"):
        datasets.load(file_with(tmp_path, rewards=np.full(260, 0.5), terminals=np.zeros(260, bool)))


def test_what_32_bits_blur_or_cannot_hold_is_said(tmp_path):
    far = make_rows("hopper", kind=np.float64)["observations"]
    far[:, 2] = 5e6 + 0.1 * far[:, 2]
    with pytest.warns(PloffWarning, match=r"observations \(component 2\) vary by .* around 5e\+06, which 32 bits"):
        datasets.load(file_with(tmp_path, observations=far, next_observations=None))
    with pytest.warns(PloffWarning, match="rewards vary by"):
        datasets.load(file_with(tmp_path, rewards=1e6 + np.linspace(0, 0.01, 260)))
    far[7, 2] = 1e300
    message = refusal(file_with(tmp_path, observations=far, next_observations=None))
    assert "observations reach 1e+300, first in row 7; more than 1e+18" in message


def test_terminals_that_look_like_a_time_limit_are_worth_a_warning(tmp_path):
    with pytest.warns(PloffWarning, match="all 13 terminals come after 20 steps; where that is a time limit"):
        datasets.load(file_with(tmp_path, terminals=np.arange(260) % 20 == 19, timeouts=np.zeros(260, bool)))


def test_bounds_far_from_all_actions_are_worth_a_warning_and_infinite_ones_are_refused(tmp_path):
    path = file_with(tmp_path, "robot.hdf5")
    with pytest.warns(PloffWarning, match=r"less than 1% of \[-1000, 1000\]"):
        datasets.load(path, action_low=-1000.0, action_high=1000.0)
    for low, high in ((-np.inf, np.inf), (1.0, -1.0)):
        with pytest.raises(DataError, match="must be finite, and the lower bound the lower one"):
            datasets.load(path, action_low=low, action_high=high)


def test_successors_out_of_range_are_refused(tmp_path):
    path = datasets.convert(file_with(tmp_path), tmp_path / "a.npz")
    with np.load(path) as archive:
        content = dict(archive)
    content["successors"][4] = 10_000
    np.savez(path, **content)
    assert "successors[4] is 10000, but there are 264 states" in refusal(path)


def test_numbers_that_are_none_are_refused(tmp_path):
    rows = make_rows("hopper", successors=True)
    complex_ones = rows["observations"] + 1j
    assert "observations holds complex numbers (complex64)" in refusal(file_with(tmp_path, observations=complex_ones))
    assert "actions holds no numbers" in refusal(file_with(tmp_path, actions=np.full((260, 3), b"left")))


@pytest.mark.parametrize(("field", "value"), [("actions", 1e300), ("observations", 1e37), ("rewards", -2e18)])
def test_numbers_whose_squares_overflow_are_refused(field, value, tmp_path):
    changes = changed(field, 7, value, kind=np.float64)
    message = refusal(file_with(tmp_path, **changes, next_observations=None))
    assert f"{field} reach {abs(value):g}, first in row 7; more than 1e+18 cannot be learned from" in message
