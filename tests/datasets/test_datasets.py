"""What the package itself does: names and formats, loading, saving, converting, and the sample that it brings."""

import importlib.resources
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

from data_cases import (
    LAYOUTS,
    assert_same_arrays,
    changed,
    file_with,
    make_rows,
    needs_shared_data,
    read_hdf5,
    refusal,
    shared_files,
    write_hdf5,
)
from ploff import datasets, environments
from ploff.transitions import UNKNOWN
from ploff.utils.errors import DataError, UnknownNameError

SAMPLE = pathlib.Path(datasets.__file__).with_name("sample.npz")


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


def test_an_unknown_name_comes_with_the_nearest_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown dataset 'hoper-medium'; did you mean 'hopper-medium'"):
        datasets.load("hoper-medium")


def test_a_folder_called_like_a_dataset_does_not_hide_it(tmp_path, monkeypatch):
    write_hdf5(tmp_path / "hopper-medium-v2.hdf5", make_rows("hopper"))
    (tmp_path / "hopper-medium-v2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert datasets.load("hopper-medium-v2").origin.environment == "hopper"
    with pytest.raises(DataError, match="is a folder"):
        datasets.load(str(tmp_path / "hopper-medium-v2"))


def go_round(source, folder):
    """D4RL → Minari → NPZ → D4RL; every stop's transitions, and the last file's arrays."""
    stops = [source]
    for target in ("there-v0", "back.npz", "again.hdf5"):
        stops.append(folder / target)
        datasets.convert(stops[-2], stops[-1], to="minari" if target.endswith("-v0") else None)
    return [datasets.load(stop, infos=True) for stop in stops], read_hdf5(stops[-1])


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_array_and_end_survives_the_round_trip(name, tmp_path):
    rows = make_rows(name, **LAYOUTS[name])
    source = write_hdf5(tmp_path / f"{name}.hdf5", rows)
    loaded, written = go_round(source, tmp_path)
    expected = {key: values for key, values in rows.items() if not key.startswith("metadata/")}
    if "timeouts" not in rows:  # derived, then written down
        expected["timeouts"] = written["timeouts"]
        assert np.flatnonzero(written["timeouts"]).tolist() == [129]
    assert_same_arrays(written, expected)
    for stop in loaded:
        assert stop.episode_ends().tolist() == loaded[0].episode_ends().tolist()
        np.testing.assert_array_equal(stop.successors, loaded[0].successors)
        assert stop.action_space == loaded[0].action_space
        assert stop.origin == loaded[0].origin


@needs_shared_data
@pytest.mark.parametrize("source", shared_files(), ids=lambda path: path.stem)
def test_real_files_survive_the_round_trip(source, tmp_path):
    _, written = go_round(source, tmp_path)
    assert_same_arrays(written, read_hdf5(source))


def test_a_mixture_of_known_and_unknown_final_states_survives(tmp_path):
    rows = make_rows("door", successors=True, cut=True)
    rows["next_observations_known"] = np.ones(260, bool)
    rows["next_observations_known"][[79, 259]] = False
    rows["next_observations"][[79, 259]] = np.nan
    loaded, written = go_round(write_hdf5(tmp_path / "door-mixed.hdf5", rows), tmp_path)
    assert_same_arrays(written, rows)
    for stop in loaded:
        assert np.flatnonzero(np.asarray(stop.successors) == UNKNOWN).tolist() == [79, 259]


def test_choices_survive_the_round_trip(tmp_path):
    rows = make_rows("grid", successors=True)
    rows["actions"] = np.random.default_rng(0).integers(0, 4, 260).astype(np.int32)
    source = write_hdf5(tmp_path / "grid.hdf5", rows)
    datasets.save(datasets.load(source, infos=True, choices=6), tmp_path / "grid.npz")
    loaded, written = go_round(tmp_path / "grid.npz", tmp_path)
    assert_same_arrays(written, rows)
    assert {stop.action_space.n for stop in loaded} == {6}


def test_nothing_is_overwritten_unless_asked_and_nothing_half_written_is_left(tmp_path):
    source = write_hdf5(tmp_path / "hopper.hdf5", make_rows("hopper", successors=True))
    transitions = datasets.load(source)
    for target, format in ((tmp_path / "a.npz", None), (tmp_path / "a-v0", "minari")):
        datasets.save(transitions, target, format=format)
        with pytest.raises(DataError, match="exists already"):
            datasets.save(transitions, target, format=format)
        datasets.save(transitions.select_episodes([0]), target, format=format, overwrite=True)
        assert len(datasets.load(target)) == 30
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-v0", "a.npz", "hopper.hdf5"]


def test_scaled_transitions_are_written_as_they_were_logged(tmp_path):
    rows = make_rows("hopper", successors=True)
    source = write_hdf5(tmp_path / "hopper.hdf5", rows)
    scaled = datasets.load(source, infos=True).with_unit_rewards().with_normalized_observations()
    datasets.save(scaled, tmp_path / "copy.hdf5")
    assert_same_arrays(read_hdf5(tmp_path / "copy.hdf5"), rows)


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


def test_the_bundled_sample_loads():
    if not SAMPLE.exists():
        pytest.skip("no sample in this checkout")
    transitions = datasets.load("sample")
    assert len(transitions) > 0
    assert transitions.origin.environment is not None


def test_the_bundled_sample_is_small_and_holds_more_and_less_skill():
    file = importlib.resources.files("ploff.datasets") / "sample.npz"
    with importlib.resources.as_file(file) as path:
        assert path.stat().st_size < 3_000_000
    sample = datasets.load("sample")
    scores = environments.normalized_score(
        sample.episode_returns(), environments.reference_scores(str(sample.origin.environment))
    )
    assert np.percentile(scores, 10) < 5
    assert scores.max() > 25
    assert (sample.successors != UNKNOWN).all()


def test_the_bundled_sample_obeys_the_physics_that_it_names():
    pytest.importorskip("mujoco")
    sample = datasets.load("sample")
    env = environments.make(str(sample.origin.environment), sample.origin.physics)
    env.reset(seed=0)
    base: Any = env.unwrapped
    states = np.asarray(sample.observations)[: len(sample)]
    following = sample.next_observations()
    errors = []
    for row in range(0, len(sample), len(sample) // 100):
        base.set_state(np.concatenate([[0.0], states[row, :8]]), states[row, 8:].astype(np.float64))
        observation, reward, terminal, _, _ = env.step(sample.actions[row])
        errors.append(np.abs(observation - following[row]).max())
        assert float(reward) == pytest.approx(float(sample.rewards[row]), abs=1e-3)
        assert terminal == sample.terminals[row]
    assert np.median(errors) < 1e-4
