import numpy as np
import pytest

from data_cases import (
    LAYOUTS,
    assert_same_arrays,
    make_rows,
    needs_shared_data,
    read_hdf5,
    shared_files,
    write_hdf5,
)
from ploff import datasets
from ploff.errors import DataError
from ploff.transitions import UNKNOWN


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


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("name", ["hopper_medium-v2", "door-cut-v1", "hopper_broken-v2"])
def test_tables_keep_every_number_and_end(name, suffix, tmp_path):
    source = write_hdf5(tmp_path / f"{name}.hdf5", make_rows(name, **LAYOUTS[name]))
    before = datasets.load(source)
    table = datasets.convert(source, tmp_path / f"{name}{suffix}")
    after = datasets.load(table, action_low=-1, action_high=1)
    for field in ("observations", "actions", "rewards", "terminals", "timeouts", "successors"):
        np.testing.assert_array_equal(
            np.asarray(getattr(after, field), np.float32), np.asarray(getattr(before, field), np.float32)
        )
    if suffix == ".parquet":
        assert after.observations.dtype == before.observations.dtype
        assert datasets.load(table).origin == before.origin


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


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    source = write_hdf5(tmp_path / "hopper.hdf5", make_rows("hopper", successors=True))
    transitions = datasets.load(source)
    kept = datasets.save(transitions, tmp_path / "a-v0", format="minari")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("ploff.datasets.minari_format._episodes", fail)
    with pytest.raises(OSError, match="disk full"):
        datasets.save(transitions.select_episodes([0]), kept, format="minari", overwrite=True)
    assert len(datasets.load(kept)) == 260
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-v0", "hopper.hdf5"]


def test_scaled_transitions_are_written_as_they_were_logged(tmp_path):
    rows = make_rows("hopper", successors=True)
    source = write_hdf5(tmp_path / "hopper.hdf5", rows)
    scaled = datasets.load(source, infos=True).with_unit_rewards().with_standard_observations()
    datasets.save(scaled, tmp_path / "copy.hdf5")
    assert_same_arrays(read_hdf5(tmp_path / "copy.hdf5"), rows)
