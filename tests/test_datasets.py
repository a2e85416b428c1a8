import csv
import dataclasses
import json
import pathlib
import re

import gymnasium as gym
import h5py
import numpy as np
import pytest

from data_cases import LAYOUTS, make_rows, needs_shared_data, read_hdf5, shared_files, write_hdf5
from ploff import datasets
from ploff.actions import ActionSpace
from ploff.datasets import catalogue, hdf5
from ploff.datasets.rows import cuts
from ploff.errors import DataError, PloffWarning
from ploff.transitions import UNKNOWN

SAMPLE = pathlib.Path(datasets.__file__).with_name("sample.npz")


def counts(transitions):
    return (
        len(transitions),
        len(transitions.episode_ends()),
        int(transitions.terminals.sum()),
        int(transitions.timeouts.sum()),
    )


def counts_by_hand(rows, timeouts=None):
    terminals = rows["terminals"].reshape(-1).astype(bool)
    timeouts = rows["timeouts"].reshape(-1).astype(bool) if timeouts is None else timeouts
    ends = terminals | timeouts
    return len(ends), int(ends.sum()) + int(not ends[-1]), int(terminals.sum()), int(timeouts.sum())


# D4RL's layouts.


@pytest.mark.parametrize("name", [name for name in LAYOUTS if "v0" not in name])
def test_counts_are_those_of_the_file(name, tmp_path):
    rows = make_rows(name, **LAYOUTS[name])
    assert counts(datasets.load(write_hdf5(tmp_path / f"{name}.hdf5", rows))) == counts_by_hand(rows)


@needs_shared_data
@pytest.mark.parametrize("path", shared_files(), ids=lambda path: path.stem)
def test_counts_are_those_of_real_files(path):
    assert counts(datasets.load(path)) == counts_by_hand(read_hdf5(path))


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
    assert np.flatnonzero(cuts(ends, 4)).tolist() == [10]  # row 6 is a fourth step, but ends by itself
    assert np.flatnonzero(cuts(ends, 2)).tolist() == [1, 4, 8, 10]
    assert np.flatnonzero(cuts(ends, 100)).tolist() == []


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


def test_a_known_name_tells_environment_bounds_and_references(tmp_path):
    rows = make_rows("hopper", successors=True)
    transitions = datasets.load(write_hdf5(tmp_path / "hopper-medium-v2.hdf5", rows))
    assert transitions.origin.environment == "hopper"
    assert transitions.origin.physics == "d4rl"
    assert transitions.origin.reference_scores == (-20.272305, 3234.3)
    assert transitions.action_space == ActionSpace.box([-1] * 3, [1] * 3)


def test_the_files_own_name_comes_before_its_paths(tmp_path):
    path = write_hdf5(tmp_path / "whatever.hdf5", make_rows("pen"))
    with h5py.File(path, "a") as file:
        file.attrs["name"] = "pen-expert"
    assert datasets.load(path).origin.name == "pen-expert"
    assert datasets.load(path).origin.environment == "pen"


def test_unknown_bounds_are_taken_from_the_data_with_a_warning(tmp_path):
    path = write_hdf5(tmp_path / "robot.hdf5", make_rows("robot"))
    with pytest.warns(PloffWarning, match="taking the actions' bounds from the data"):
        transitions = datasets.load(path)
    np.testing.assert_array_equal(transitions.action_space.low, transitions.actions.min(axis=0))
    given = datasets.load(path, action_low=-2, action_high=[2, 3, 4], environment="door")
    assert given.action_space == ActionSpace.box([-2] * 3, [2, 3, 4])
    assert given.origin.environment == "door"
    assert given.origin.reference_scores == (-56.512833, 2880.5693)


def test_the_number_of_choices_is_taken_from_the_data_with_a_warning(tmp_path):
    rows = make_rows("grid") | {"actions": np.arange(260) % 3}
    path = write_hdf5(tmp_path / "grid.hdf5", rows)
    with pytest.warns(PloffWarning, match="number of choices, 3, from the data"):
        transitions = datasets.load(path)
    assert transitions.actions.dtype.kind == "i"
    assert transitions.batch(np.arange(3)).actions.tolist() == np.eye(3).tolist()
    assert datasets.load(path, choices=5).action_space.n == 5


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
    assert (
        written["actions"].shape
        == written["observations"].shape
        == written["next_observations"].shape
        == (20,)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"compression": None},
        {"chunks": (100, 2)},
        {"chunks": (33, 1), "shuffle": True},
        {"compression": "lzf"},
        {"fletcher32": True},
        {"dtype": ">f8"},
        {"dtype": ">f4", "chunks": (7, 4), "shuffle": True},
    ],
    ids=str,
)
def test_stored_rows_are_what_h5py_reads(options, tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "BLOCK_ROWS", 64)
    values = np.random.default_rng(0).standard_normal((321, 5)).round(1)
    path = write_hdf5(tmp_path / "a.hdf5", {"x": values}, **options)
    with h5py.File(path) as file:
        stored, expected = hdf5.StoredRows(file["x"]), file["x"][()]
        np.testing.assert_array_equal(stored.read(), expected)
        np.testing.assert_array_equal(np.concatenate(list(stored)), expected)
        assert stored.read().dtype.isnative


def test_chunks_that_were_never_written_hold_the_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        sparse = file.create_dataset("x", (100, 2), "f4", chunks=(10, 2), compression="gzip", fillvalue=7.0)
        sparse[20:25] = 1.0
        rows = hdf5.StoredRows(sparse).read()
    assert (rows[20:25] == 1).all()
    assert (rows.sum(), len(rows)) == (7 * 190 + 10, 100)


# Minari.


def collect_with_minari(monkeypatch, tmp_path, name, env, *, data_format="hdf5", episodes=3, **options):
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    collector = minari.DataCollector(env, record_infos=False, data_format=data_format)
    for seed in range(episodes):
        collector.reset(seed=seed)
        collector.action_space.seed(seed)
        for _ in range(50):
            *_, terminated, truncated, _ = collector.step(collector.action_space.sample())
            if terminated or truncated:
                break
    return collector.create_dataset(name, **options)


@pytest.mark.filterwarnings("ignore:.*every reward is 1", "ignore::UserWarning:minari")
@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
def test_minaris_own_datasets_are_read_from_either_storage(data_format, monkeypatch, tmp_path):
    theirs = collect_with_minari(
        monkeypatch,
        tmp_path,
        "pole/random-v0",
        gym.make("CartPole-v1", max_episode_steps=15),
        data_format=data_format,
        ref_min_score=9.0,
        ref_max_score=500.0,
    )
    transitions = datasets.load("pole/random-v0")
    episodes = list(theirs)
    assert counts(transitions) == (
        theirs.total_steps,
        3,
        sum(int(episode.terminations.sum()) for episode in episodes),
        sum(int(episode.truncations.sum()) for episode in episodes),
    )
    ends = transitions.episode_ends()
    for episode, start, end in zip(episodes, transitions.episode_starts(), ends, strict=True):
        np.testing.assert_array_equal(transitions.observations[start : end + 1], episode.observations[:-1])
        np.testing.assert_array_equal(transitions.next_observations()[end], episode.observations[-1])
        np.testing.assert_array_equal(transitions.actions[start : end + 1], episode.actions)
    assert transitions.num_states == len(transitions) + 3
    assert transitions.action_space == ActionSpace.discrete(2)
    assert transitions.origin.environment == "CartPole-v1"
    assert json.loads(transitions.origin.options) == {"max_episode_steps": 15}  # Gymnasium's own are 500
    assert transitions.origin.reference_scores == (9.0, 500.0)
    assert "pole/random-v0" in {entry.name for entry in datasets.list_datasets()}
    assert len(datasets.load("minari:pole/random-v0")) == len(transitions)
    assert len(datasets.load(tmp_path / "minari/pole/random-v0")) == len(transitions)


class Rooms(gym.Env):
    """Observations in a dictionary, choices that start at 1, and no end of its own."""

    observation_space = gym.spaces.Dict(
        {"goal": gym.spaces.Box(-9, 9, (2,)), "room": gym.spaces.Discrete(3, start=5)}
    )
    action_space = gym.spaces.Discrete(4, start=1)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return {"goal": np.full(2, 0.5, np.float32), "room": 5}, {}

    def step(self, action):
        self.steps += 1
        return (
            {"goal": np.full(2, action, np.float32), "room": 5 + action % 3},
            1.0 * action,
            False,
            False,
            {},
        )


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_dictionaries_lie_side_by_side_and_choices_count_from_0(monkeypatch, tmp_path):
    theirs = collect_with_minari(monkeypatch, tmp_path, "rooms-v0", Rooms(), episodes=2)
    transitions = datasets.load("rooms-v0", horizon=50)
    episode = theirs[0]
    assert transitions.observation_shape == (5,)
    np.testing.assert_array_equal(transitions.observations[0], [0.5, 0.5, 1, 0, 0])
    np.testing.assert_array_equal(transitions.actions[:50], episode.actions - 1)
    np.testing.assert_array_equal(transitions.observations[:50, :2], episode.observations["goal"][:-1])
    assert transitions.action_space == ActionSpace.discrete(4)


def test_a_minari_folder_that_ploff_wrote_opens_with_minari(tmp_path):
    import minari

    rows = make_rows("door", cut=True)
    source = write_hdf5(tmp_path / "door-cut-v1.hdf5", rows)
    folder = datasets.convert(source, tmp_path / "door-v3", to="minari")
    theirs = minari.MinariDataset(folder / "data")
    assert (theirs.id, theirs.total_episodes, theirs.total_steps) == ("door-v3", 4, 260)
    first = theirs[0]
    np.testing.assert_array_equal(first.observations[:-1], rows["observations"][:30])
    assert np.isnan(first.observations[-1]).all()  # not logged
    assert first.terminations.tolist() == [False] * 29 + [True]
    assert first.infos["qpos"].shape == (31, 4)
    assert np.isnan(first.infos["qpos"][-1]).all()
    assert not theirs[3].truncations.any()


def test_a_download_that_fails_says_so(monkeypatch, tmp_path):
    import minari

    def fail(name):
        raise ConnectionError("no route to host")

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.setattr(minari, "download_dataset", fail)
    with pytest.raises(
        DataError, match=r"'D4RL/pen/human-v2' is not in .* ConnectionError: no route to host"
    ):
        datasets.load("D4RL/pen/human-v2")


# NumPy archives.


def test_archives_with_d4rls_names_are_read(tmp_path):
    rows = {k: v for k, v in make_rows("hopper", successors=True).items() if not k.startswith("infos/")}
    np.savez(tmp_path / "hopper-mine.npz", **rows)
    transitions = datasets.load(tmp_path / "hopper-mine.npz")
    assert counts(transitions) == counts_by_hand(rows)
    np.testing.assert_array_equal(transitions.next_observations(), rows["next_observations"])
    assert transitions.origin.environment == "hopper"


# Tables.


def write_csv(path, columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def test_columns_are_found_by_convention_and_put_in_order(tmp_path):
    path = write_csv(
        tmp_path / "log.csv",
        {
            "time": [0.0, 0.1, 0.2, 0.3],
            "remark": ["cold", "cold", "warm", "hot"],
            "obs_10": [10.0, 10.5, 11.5, 12.5],
            "obs_9": [9.0, 9.5, 9.25, 9.75],
            "action_0": [0.5, -0.5, 0.25, 0.0],
            "reward": [1.0, 2.0, 3.0, 4.0],
            "terminated": ["false", "true", "false", "false"],
            "truncated": [0, 0, 0, 1],
        },
    )
    transitions = datasets.load(path, action_low=-1, action_high=1, infos=True)
    np.testing.assert_array_equal(transitions.observations[0], [9, 10])
    assert transitions.terminals.tolist() == [False, True, False, False]
    assert transitions.timeouts.tolist() == [False, False, False, True]
    assert transitions.successors.tolist() == [1, UNKNOWN, 3, UNKNOWN]
    assert transitions.infos["time"].tolist() == [0.0, 0.1, 0.2, 0.3]
    assert "remark" not in transitions.infos


def test_an_episode_column_marks_cuts_where_it_changes(tmp_path):
    path = write_csv(
        tmp_path / "log.csv",
        {
            "episode_id": ["a", "a", "b", "b", "c"],
            "state_speed": [1.0, 2.0, 3.0, 4.0, 5.0],
            "state_angle": [0.1, 0.2, 0.3, 0.4, 0.5],
            "action": [0, 1, 2, 1, 0],
            "reward": [1.0, 2.0, 3.0, 4.0, 5.0],
            "done": [0, 0, 0, 1, 0],
        },
    )
    transitions = datasets.load(path, choices=3)
    assert transitions.timeouts.tolist() == [False, True, False, False, True]
    assert transitions.terminals.tolist() == [False, False, False, True, False]
    assert transitions.episode_lengths().tolist() == [2, 2, 1]
    np.testing.assert_array_equal(transitions.observations[0], [1.0, 0.1])


def test_columns_can_be_named_and_lists_are_vectors(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table(
        {
            "sensors": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            "sensors_after": [[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]],
            "valve": [0.1, 0.2, 0.3],
            "profit": [1.0, 0.0, 2.0],
            "batch": [1, 1, 1],
        }
    )
    path = tmp_path / "plant.parquet"
    pyarrow.parquet.write_table(table, path)
    with pytest.warns(PloffWarning, match="no terminal column: every episode counts as cut"):
        transitions = datasets.load(
            path,
            action_low=0,
            action_high=1,
            columns={
                "observations": ["sensors"],
                "next_observations": ["sensors_after"],
                "actions": ["valve"],
                "rewards": ["profit"],
                "episodes": ["batch"],
            },
        )
    assert transitions.timeouts.tolist() == [False, False, True]
    assert transitions.num_states == 4
    np.testing.assert_array_equal(transitions.next_observations()[-1], [7, 8])


def test_what_a_table_says_about_an_action_is_no_part_of_it(tmp_path):
    path = write_csv(
        tmp_path / "log.csv",
        {
            "obs_0": [1.0, 2.0, 3.0],
            "action_0": [-1, 1, 1],  # as a CSV file writes -1.0 and 1.0
            "action_logprob": [-0.5, -0.7, -0.1],
            "reward": ["false", "true", "true"],
            "timeout": [0, 0, 1],
            "terminal": [0, 0, 0],
        },
    )
    transitions = datasets.load(path, action_low=-1, action_high=1)
    np.testing.assert_array_equal(transitions.actions, [[-1], [1], [1]])
    assert transitions.action_space == ActionSpace.box(-1, 1)
    assert transitions.rewards.tolist() == [0.0, 1.0, 1.0]
    assert transitions.episode_returns().tolist() == [2.0]


def test_bounds_without_end_that_a_file_tells_are_taken_from_the_data(tmp_path):
    data = datasets.load(write_hdf5(tmp_path / "hopper-medium-v2.hdf5", make_rows("hopper")))
    free = dataclasses.replace(data, action_space=ActionSpace.box([-np.inf] * 3, [np.inf] * 3))
    assert not free.action_space.bounded
    datasets.save(free, tmp_path / "free.npz")
    with pytest.warns(PloffWarning, match="taking the actions' bounds from the data"):
        again = datasets.load(tmp_path / "free.npz")
    assert again.action_space == ActionSpace.box(data.actions.min(axis=0), data.actions.max(axis=0))


def test_a_list_that_is_missing_is_an_unknown_next_observation_and_nothing_else_may_be(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    columns = {
        "obs": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "next_obs": [[3.0, 4.0], None, [7.0, 8.0]],
        "action": [0.1, 0.2, 0.3],
        "reward": [1.0, 0.0, 2.0],
        "terminal": [False, False, False],
        "episode": [0, 0, 1],
    }
    path, bounds = tmp_path / "log.parquet", {"action_low": 0, "action_high": 1}
    pyarrow.parquet.write_table(pa.table(columns), path)
    transitions = datasets.load(path, **bounds)
    assert (transitions.successors == UNKNOWN).tolist() == [False, True, False]
    np.testing.assert_array_equal(transitions.next_observations()[2], [7, 8])
    pyarrow.parquet.write_table(
        pa.table({**columns, "next_obs": pa.array([None] * 3, pa.list_(pa.float64()))}), path
    )
    assert datasets.load(path, **bounds).successors.tolist() == [
        1,
        UNKNOWN,
        UNKNOWN,
    ]  # as if there were no column
    for name, gap, message in (
        ("obs", [[], [], []], "obs"),
        ("obs", [[1.0, 2.0], None, [5.0, 6.0]], "some are missing"),
        ("episode", [0, None, None], "'episode' has gaps: every row belongs to an episode"),
    ):
        pyarrow.parquet.write_table(pa.table({**columns, name: gap}), path)
        with pytest.raises(DataError, match=message):
            datasets.load(path, **bounds)


def test_a_folder_called_like_a_dataset_does_not_hide_it(tmp_path, monkeypatch):
    write_hdf5(tmp_path / "hopper-medium-v2.hdf5", make_rows("hopper"))
    (tmp_path / "hopper-medium-v2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert datasets.load("hopper-medium-v2").origin.environment == "hopper"
    with pytest.raises(DataError, match="is a folder"):
        datasets.load(str(tmp_path / "hopper-medium-v2"))


def test_long_lists_are_vectors_too(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    kind = pa.large_list(pa.float64())
    columns = {
        "observation": pa.array([[1.0, 2.0], [3.0, 4.0]], kind),
        "action": pa.array([[0.1], [0.2]], kind),
        "reward": [1.0, 0.0],
        "terminal": [False, True],
        "timeout": [False, False],
    }
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    transitions = datasets.load(tmp_path / "log.parquet", action_low=0, action_high=1)
    np.testing.assert_array_equal(transitions.observations, [[1, 2], [3, 4]])


def test_an_empty_next_observation_is_an_unknown_one(tmp_path):
    path = write_csv(
        tmp_path / "log.csv",
        {
            "obs_0": [1, 2, 3],
            "action_0": [0.0, 0.5, 1.0],
            "reward": [0, 1, 2],
            "timeout": [0, 1, 1],
            "terminal": [0, 0, 0],
            "next_obs_0": [2.0, "", 4.5],
        },
    )
    transitions = datasets.load(path, action_low=0, action_high=1)
    assert transitions.successors.tolist() == [1, UNKNOWN, 3]
    assert transitions.observations.ravel().tolist() == [1.0, 2.0, 3.0, 4.5]


# Names.


def test_files_are_found_by_name_whatever_their_dashes_and_version(tmp_path, monkeypatch):
    monkeypatch.setenv("PLOFF_DATA", str(tmp_path))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "none"))
    rows = make_rows("hopper", successors=True)
    for name in ("hopper_medium-v0", "hopper_medium-v2"):
        write_hdf5(tmp_path / f"{name}.hdf5", rows)
    assert datasets.load("hopper-medium").origin.name == "hopper_medium-v2"
    assert datasets.load("hopper-medium-v0").origin.name == "hopper_medium-v0"
    listed = {entry.name: entry for entry in datasets.list_datasets()}
    assert listed["hopper_medium-v2"].location == tmp_path / "hopper_medium-v2.hdf5"
    assert "hopper-medium" not in listed
    assert listed["hopper-random"].location is None
    assert listed["pen-human"].minari_id == "D4RL/pen/human-v2"
    assert listed["sample"].kind == "bundled"


def test_the_paper_has_24_datasets():
    assert len(set(catalogue.PAPER_DATASETS)) == 24
    assert sum(catalogue.minari_id(name) is not None for name in catalogue.PAPER_DATASETS) == 12


def test_the_bundled_sample_loads():
    if not SAMPLE.exists():
        pytest.skip("no sample in this checkout")
    transitions = datasets.load("sample")
    assert len(transitions) > 0
    assert transitions.origin.environment is not None


# The documentation.


@pytest.mark.filterwarnings("ignore:.*no terminal column")
def test_the_examples_of_the_page_on_data_run(tmp_path, monkeypatch):
    page = pathlib.Path(__file__).parents[1] / "docs" / "data.md"
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        if "sample" not in block or SAMPLE.exists():
            exec(block, {})
    assert len(datasets.load("pendulum.npz").episode_ends()) == 3
