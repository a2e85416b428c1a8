import h5py
import numpy as np
import pytest

from data_cases import (
    LAYOUTS,
    counts,
    counts_by_hand,
    file_with,
    make_rows,
    needs_shared_data,
    read_hdf5,
    refusal,
    shared_files,
    write_hdf5,
)
from ploff import datasets


@pytest.mark.parametrize("name", [name for name in LAYOUTS if "v0" not in name])
def test_counts_are_those_of_the_file(name, tmp_path):
    rows = make_rows(name, **LAYOUTS[name])
    assert counts(datasets.load(write_hdf5(tmp_path / f"{name}.hdf5", rows))) == counts_by_hand(rows)


@needs_shared_data
@pytest.mark.parametrize("path", shared_files(), ids=lambda path: path.stem)
def test_counts_are_those_of_real_files(path):
    assert counts(datasets.load(path)) == counts_by_hand(read_hdf5(path))


def test_arrays_keep_their_type(tmp_path):
    rows = make_rows("hopper", **LAYOUTS["hopper_medium_replay-v1"])
    transitions = datasets.load(write_hdf5(tmp_path / "hopper.hdf5", rows))
    assert transitions.observations.dtype == transitions.rewards.dtype == np.float64
    assert transitions.terminals.dtype == transitions.timeouts.dtype == bool
    assert transitions.rewards.shape == (260,)
    np.testing.assert_array_equal(transitions.next_observations(), rows["next_observations"])


def test_infos_are_carried_only_when_asked_for(tmp_path):
    rows = make_rows("hopper", successors=True)
    path = write_hdf5(tmp_path / "hopper.hdf5", rows)
    bare, full = datasets.load(path), datasets.load(path, infos=True)
    data = sum(rows[name].nbytes for name in ("observations", "actions", "rewards", "terminals", "timeouts"))
    assert not bare.infos
    assert bare.nbytes() <= 1.15 * data  # 5 + 3 numbers a row; wider data comes below 1.1
    assert sorted(full.infos) == ["action_log_probs", "deep/counter", "qpos"]
    np.testing.assert_array_equal(full.infos["deep/counter"], np.arange(260))


def test_the_files_own_name_comes_before_its_paths(tmp_path):
    path = write_hdf5(tmp_path / "whatever.hdf5", make_rows("pen"))
    with h5py.File(path, "a") as file:
        file.attrs["name"] = "pen-expert"
    assert datasets.load(path).origin.name == "pen-expert"
    assert datasets.load(path).origin.environment == "pen"


def test_the_inside_of_a_minari_dataset_is_recognized(tmp_path):
    folder = datasets.convert(file_with(tmp_path), tmp_path / "a-v0", to="minari")
    assert "the inside of a Minari dataset" in refusal(folder / "data" / "main_data.hdf5")
