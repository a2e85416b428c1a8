import json
import re
import shutil

import h5py
import numpy as np
import pytest

from data_cases import make_rows, read_hdf5, write_hdf5
from ploff import datasets
from ploff.errors import DataError, PloffWarning, UnknownNameError


@pytest.fixture(autouse=True)
def _no_other_data(tmp_path_factory, monkeypatch):
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.delenv("PLOFF_DATA", raising=False)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(empty / "minari"))
    monkeypatch.chdir(empty)


def refusal(name, **options):
    """The one line by which loading is refused."""
    with pytest.raises(DataError) as caught:
        datasets.load(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(name) in message
    return message


def file_with(tmp_path, name="hopper-medium-v2.hdf5", **changes):
    """A sound file but for the arrays in `changes`; None leaves one out."""
    rows = make_rows("hopper", successors=True) | changes
    return write_hdf5(tmp_path / name, {key: values for key, values in rows.items() if values is not None})


def changed(field, row, value, **options):
    """An array of the sound file with one value changed."""
    values = make_rows("hopper", successors=True, **options)[field].copy()
    values[row] = value
    return {field: values}


# Files.


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


def test_a_file_that_is_no_hdf5_is_refused(tmp_path):
    path = tmp_path / "hopper.hdf5"
    path.write_text("<html>404 not found</html>")
    assert "is not an HDF5 file: it begins with b'<html>40'" in refusal(path)
    assert "cannot be opened as HDF5" in refusal(path, format="d4rl")


def test_a_truncated_file_is_refused(tmp_path):
    path = file_with(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert f"is truncated: {len(whole) // 2:,} of {len(whole):,} bytes" in refusal(path)


def test_a_damaged_chunk_is_refused(tmp_path):
    path = file_with(tmp_path)
    with h5py.File(path) as file:
        chunk = file["actions"].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset + 20 : chunk.byte_offset + 60] = bytes(40)
    path.write_bytes(content)
    assert "actions is damaged near row 0" in refusal(path)


def test_a_damaged_archive_or_table_is_refused(tmp_path):
    for name, beginning in (("a.npz", b"PK\x03\x04"), ("a.parquet", b"PAR1")):
        (tmp_path / name).write_bytes(beginning + bytes(100))
        assert "cannot be read as" in refusal(tmp_path / name)


def test_a_suffix_that_contradicts_the_content_is_refused(tmp_path):
    path = file_with(tmp_path, "hopper.npz")
    assert "is named .npz but holds d4rl data; rename it, or give --format d4rl" in refusal(path)
    assert len(datasets.load(path, format="d4rl")) == 260
    other = file_with(tmp_path, "hopper.data")
    assert len(datasets.load(other)) == 260  # an unknown suffix contradicts nothing


def test_an_unknown_format_is_refused(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("obs action reward")
    assert "is of no format that ploff reads; it reads .hdf5" in refusal(path)
    with pytest.raises(UnknownNameError, match=r"unknown format 'hdf'"):
        datasets.load(file_with(tmp_path), format="hdf")


def test_the_inside_of_a_minari_dataset_is_recognised(tmp_path):
    folder = datasets.convert(file_with(tmp_path), tmp_path / "a-v0", to="minari")
    assert "the inside of a Minari dataset" in refusal(folder / "data" / "main_data.hdf5")


# Names.


def test_an_unknown_name_comes_with_the_nearest_known_ones():
    with pytest.raises(
        UnknownNameError, match=r"unknown dataset 'hoper-medium'; did you mean 'hopper-medium'"
    ):
        datasets.load("hoper-medium")


def test_the_papers_data_that_is_not_here_says_where_to_put_it():
    assert "PLOFF_DATA, or load 'D4RL/pen/human-v2' from Minari" in refusal("pen-human-v1")
    assert refusal("hopper-medium-v2").endswith("named by PLOFF_DATA")


# Arrays.


def test_missing_arrays_are_named_with_those_that_are_there(tmp_path):
    message = refusal(file_with(tmp_path, rewards=None, terminals=None))
    assert "lacks rewards, terminals; it holds actions, next_observations, observations, timeouts" in message


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


def test_bounds_must_come_in_pairs_and_fit(tmp_path):
    path = file_with(tmp_path)
    with pytest.raises(DataError, match="both bounds of the actions"):
        datasets.load(path, action_low=-1)
    with pytest.raises(DataError, match="2 bounds for actions of 3 dimensions"):
        datasets.load(path, action_low=[-1, -1], action_high=[1, 1])


def test_a_log_without_any_end_is_refused_until_a_horizon_is_given(tmp_path):
    none = np.zeros(260, bool)
    path = file_with(tmp_path, terminals=none, timeouts=none)
    message = refusal(path)
    assert "no row is marked terminal or timeout" in message
    assert "give --horizon N, the length of an episode (260 if it is one recording)" in message
    assert len(datasets.load(path, horizon=260).episode_ends()) == 1
    with pytest.raises(DataError, match="at least 1"):
        datasets.load(path, horizon=0)


def test_a_file_without_timeouts_of_an_unknown_task_needs_a_horizon(tmp_path):
    path = file_with(tmp_path, "robot.hdf5", timeouts=None)
    assert "has no timeouts, and its task is not a known one; give --horizon N" in refusal(path)


def test_flags_are_0_or_1(tmp_path):
    message = refusal(file_with(tmp_path, terminals=np.linspace(0, 1, 260)))
    assert re.search(r"terminals\[1\] is 0\.0038.*; a flag is 0 or 1", message)
    message = refusal(file_with(tmp_path, terminals=np.zeros((260, 2), bool)))
    assert "terminals has shape (260, 2); it needs one value a row" in message


def test_equal_rewards_are_worth_a_warning(tmp_path):
    with pytest.warns(PloffWarning, match="every reward is 0.5; they say nothing"):
        datasets.load(file_with(tmp_path, rewards=np.full(260, 0.5), terminals=np.zeros(260, bool)))


def test_what_32_bits_blur_or_cannot_hold_is_said(tmp_path):
    far = make_rows("hopper", kind=np.float64)["observations"]
    far[:, 2] = 5e6 + 0.1 * far[:, 2]
    with pytest.warns(
        PloffWarning, match=r"observations \(component 2\) vary by .* around 5e\+06, which 32 bits"
    ):
        datasets.load(file_with(tmp_path, observations=far, next_observations=None))
    with pytest.warns(PloffWarning, match="rewards vary by"):
        datasets.load(file_with(tmp_path, rewards=1e6 + np.linspace(0, 0.01, 260)))
    far[7, 2] = 1e300
    message = refusal(file_with(tmp_path, observations=far, next_observations=None))
    assert "observations reach 1e+300, more than 32 bits hold" in message


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


def test_actions_are_vectors(tmp_path):
    message = refusal(file_with(tmp_path, "robot.hdf5", actions=np.zeros((260, 2, 3), np.float32)))
    assert "actions have shape (2, 3); write a vector a row" in message


def test_successors_out_of_range_are_refused(tmp_path):
    path = datasets.convert(file_with(tmp_path), tmp_path / "a.npz")
    with np.load(path) as archive:
        content = dict(archive)
    content["successors"][4] = 10_000
    np.savez(path, **content)
    assert "successors[4] is 10000, but there are 264 states" in refusal(path)


# Minari.


def test_a_minari_folder_without_data_or_of_another_time_is_refused(tmp_path):
    folder = datasets.convert(file_with(tmp_path), tmp_path / "a-v0", to="minari")
    metadata = folder / "data" / "metadata.json"
    content = json.loads(metadata.read_text())
    metadata.write_text(json.dumps(content | {"minari_version": "99.0"}))
    assert "does not support the dataset generated by Minari 99.0" in refusal(folder)
    metadata.write_text(json.dumps(content | {"total_episodes": 0}))
    assert "holds no transitions" in refusal(folder)
    metadata.write_text(json.dumps(content))
    (folder / "data" / "main_data.hdf5").unlink()
    assert "cannot be read as a Minari dataset" in refusal(folder)


def test_a_minari_name_needs_a_version(tmp_path):
    with pytest.raises(DataError, match="must end in -v0"):
        datasets.convert(file_with(tmp_path), tmp_path / "nameless", to="minari")
    assert not (tmp_path / "nameless").exists()


def test_observations_that_are_text_are_refused(tmp_path):
    folder = datasets.convert(file_with(tmp_path), tmp_path / "a-v0", to="minari")
    metadata = folder / "data" / "metadata.json"
    content = json.loads(metadata.read_text())
    space = json.dumps({"type": "MultiBinary", "n": 5})
    metadata.write_text(json.dumps(content | {"observation_space": space}))
    assert "MultiBinary observations are not supported" in refusal(folder)


# Tables.


def write_table(tmp_path, **changes):
    columns = {
        "obs_0": [1.0, 2.0, 3.0],
        "action_0": [0.0, 0.5, 1.0],
        "reward": [0.0, 1.0, 2.0],
        "terminal": [0, 0, 1],
        "episode": [1, 1, 2],
    } | changes
    present = {name: values for name, values in columns.items() if values is not None}
    lines = [",".join(present), *(",".join(map(str, row)) for row in zip(*present.values(), strict=True))]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_without_a_field_names_what_it_found(tmp_path):
    message = refusal(write_table(tmp_path, obs_0=None))
    assert "lacks observations; it holds action_0, episode, reward, terminal" in message


def test_a_column_that_is_not_there_or_a_field_that_is_none_is_refused(tmp_path):
    path = write_table(tmp_path)
    assert "lacks speed; it holds action_0, episode" in refusal(path, columns={"observations": ["speed"]})
    with pytest.raises(DataError, match="no field is called 'states'; fields are observations"):
        datasets.load(path, columns={"states": ["obs_0"]})


def test_text_gaps_and_scattered_episodes_are_refused(tmp_path):
    assert "column 'obs_0' holds string where numbers" in refusal(
        write_table(tmp_path, obs_0=["a", "b", "c"])
    )
    message = refusal(write_table(tmp_path, obs_0=[1.0, "", 3.0]), action_low=0, action_high=1)
    assert "observations holds 1 NaN or infinite value, first nan in row 1" in message
    message = refusal(write_table(tmp_path, episode=[1, 2, 1]))
    assert "the rows of an episode are not together; sort by 'episode'" in message


def test_a_table_without_any_kind_of_end_is_refused(tmp_path):
    message = refusal(write_table(tmp_path, terminal=None, episode=None))
    assert "has neither a terminal, a timeout nor an episode column" in message


# Nothing is written when something is wrong.


def test_a_refused_file_leaves_nothing_behind(tmp_path):
    source = file_with(tmp_path, **changed("rewards", 3, np.nan))
    for target in ("a.npz", "a.hdf5", "a.csv", "a.parquet"):
        with pytest.raises(DataError, match="rewards holds 1 NaN"):
            datasets.convert(source, tmp_path / target)
    with pytest.raises(DataError, match="rewards holds 1 NaN"):
        datasets.convert(source, tmp_path / "a-v0", to="minari")
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def test_a_target_of_unknown_format_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(DataError, match="cannot tell a format from"):
        datasets.convert(tmp_path / "missing.hdf5", tmp_path / "copy")
    with pytest.raises(UnknownNameError, match="unknown format 'hdf6'; known: csv, d4rl"):
        datasets.convert(tmp_path / "missing.hdf5", tmp_path / "copy", to="hdf6")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(DataError, match="is a folder; a npz dataset is a file"):
        datasets.convert(file_with(tmp_path), tmp_path / "folder.npz", overwrite=True)


def test_sound_files_stay_as_they_are(tmp_path):
    path = file_with(tmp_path)
    before = read_hdf5(path)
    shutil.copy(path, tmp_path / "copy.hdf5")
    datasets.load(path, infos=True)
    assert path.read_bytes() == (tmp_path / "copy.hdf5").read_bytes()
    assert sorted(before) == sorted(read_hdf5(path))
