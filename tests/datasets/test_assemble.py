import dataclasses

import numpy as np
import pytest

from data_cases import file_with, make_rows, read_hdf5, refusal, write_hdf5
from ploff import datasets
from ploff.actions import ActionSpace
from ploff.datasets.assemble import timeouts_at_horizon
from ploff.utils.errors import DataError, PloffWarning


def test_a_file_without_timeouts_is_cut_at_its_tasks_horizon(tmp_path):
    path = write_hdf5(tmp_path / "pen-human-v0.hdf5", make_rows("pen", timeouts=False))
    transitions = datasets.load(path)
    assert np.flatnonzero(transitions.timeouts).tolist() == [129]  # 100 steps after the terminal in row 29
    assert np.flatnonzero(transitions.terminals).tolist() == [29, 180]


def test_the_users_horizon_comes_before_the_tasks(tmp_path):
    path = write_hdf5(tmp_path / "pen-human-v0.hdf5", make_rows("pen", timeouts=False))
    assert np.flatnonzero(datasets.load(path, horizon=60).timeouts).tolist() == [89, 149, 240]


def test_the_horizon_counts_from_the_last_end_and_never_marks_a_terminal():
    ends = np.zeros(12, bool)
    ends[[2, 6]] = True  # lengths 3, 4, then 5 rows more
    assert np.flatnonzero(timeouts_at_horizon(ends, 4)).tolist() == [10]  # row 6 is a fourth step, but ends by itself
    assert np.flatnonzero(timeouts_at_horizon(ends, 2)).tolist() == [1, 4, 8, 10]
    assert np.flatnonzero(timeouts_at_horizon(ends, 100)).tolist() == []


def test_a_file_without_timeouts_of_an_unknown_task_needs_a_horizon(tmp_path):
    path = file_with(tmp_path, "robot.hdf5", timeouts=None)
    assert "has no timeouts, and its task is not a known one; give --horizon N" in refusal(path)


def test_unknown_bounds_are_taken_from_the_data_with_a_warning(tmp_path):
    path = write_hdf5(tmp_path / "robot.hdf5", make_rows("robot"))
    with pytest.warns(PloffWarning, match="taking the actions' bounds from the data"):
        transitions = datasets.load(path)
    np.testing.assert_array_equal(transitions.action_space.low, transitions.actions.min(axis=0))
    given = datasets.load(path, action_low=-2, action_high=[2, 3, 4], environment="door")
    assert given.action_space == ActionSpace.box([-2] * 3, [2, 3, 4])
    assert given.origin.environment == "door"
    assert given.origin.reference_scores == (-56.512833, 2880.5693)


def test_bounds_without_end_that_a_file_tells_are_taken_from_the_data(tmp_path):
    data = datasets.load(write_hdf5(tmp_path / "hopper-medium-v2.hdf5", make_rows("hopper")))
    free = dataclasses.replace(data, action_space=ActionSpace.box([-np.inf] * 3, [np.inf] * 3))
    assert not free.action_space.bounded
    datasets.save(free, tmp_path / "free.npz")
    with pytest.warns(PloffWarning, match="taking the actions' bounds from the data"):
        again = datasets.load(tmp_path / "free.npz")
    assert again.action_space == ActionSpace.box(data.actions.min(axis=0), data.actions.max(axis=0))


def test_bounds_must_come_in_pairs_and_fit(tmp_path):
    path = file_with(tmp_path)
    with pytest.raises(DataError, match="both bounds of the actions"):
        datasets.load(path, action_low=-1)
    with pytest.raises(DataError, match="2 bounds for actions of 3 dimensions"):
        datasets.load(path, action_low=[-1, -1], action_high=[1, 1])


def test_the_number_of_choices_is_taken_from_the_data_with_a_warning(tmp_path):
    rows = make_rows("grid") | {"actions": np.arange(260) % 3}
    path = write_hdf5(tmp_path / "grid.hdf5", rows)
    with pytest.warns(PloffWarning, match="number of choices, 3, from the data"):
        transitions = datasets.load(path)
    assert transitions.actions.dtype.kind == "i"
    assert transitions.batch(np.arange(3)).actions.tolist() == np.eye(3).tolist()
    assert datasets.load(path, choices=5).action_space.n == 5


def test_actions_are_vectors(tmp_path):
    message = refusal(file_with(tmp_path, "robot.hdf5", actions=np.zeros((260, 2, 3), np.float32)))
    assert "actions have shape (2, 3); write a vector a row" in message


def test_flat_observations_and_actions_become_vectors_and_are_written_flat_again(tmp_path):
    rows = {
        "observations": np.linspace(0, 1, 20),
        "next_observations": np.linspace(0, 1, 20) + 1 / 19,
        "actions": np.linspace(-1, 1, 20),
        "rewards": np.arange(20.0),
        "terminals": np.zeros(20, bool),
        "timeouts": np.arange(20) == 19,
    }
    source = write_hdf5(tmp_path / "flat.hdf5", rows)
    transitions = datasets.load(source, action_low=-1, action_high=1)
    assert transitions.observation_shape == (1,)
    assert transitions.actions.shape == (20, 1)
    datasets.save(transitions, tmp_path / "copy.hdf5")
    written = read_hdf5(tmp_path / "copy.hdf5")
    assert written["actions"].shape == written["observations"].shape == written["next_observations"].shape == (20,)
