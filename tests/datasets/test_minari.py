import json

import gymnasium as gym
import numpy as np
import pytest

from data_cases import counts, file_with, make_rows, refusal, write_hdf5
from ploff import datasets
from ploff.actions import ActionSpace
from ploff.utils import files
from ploff.utils.errors import DataError


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

    observation_space = gym.spaces.Dict({"goal": gym.spaces.Box(-9, 9, (2,)), "room": gym.spaces.Discrete(3, start=5)})
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
    with pytest.raises(DataError, match=r"'D4RL/pen/human-v2' is not in .* ConnectionError: no route to host"):
        datasets.load("D4RL/pen/human-v2")


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


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    source = write_hdf5(tmp_path / "hopper.hdf5", make_rows("hopper", successors=True))
    transitions = datasets.load(source)
    kept = datasets.save(transitions, tmp_path / "a-v0", format="minari")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("ploff.datasets.minari._episodes", fail)
    with pytest.raises(OSError, match="disk full"):
        datasets.save(transitions.select_episodes([0]), kept, format="minari", overwrite=True)
    assert len(datasets.load(kept)) == 260
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-v0", "hopper.hdf5"]


def test_a_dataset_that_is_replaced_is_there_at_every_moment(tmp_path, monkeypatch):
    data, folder = datasets.load(file_with(tmp_path)), tmp_path / "walk-v0"
    datasets.save(data, folder, format="minari")
    renames = []
    monkeypatch.setattr("pathlib.Path.rename", lambda *arguments: renames.append(arguments))
    datasets.save(data.select_episodes([0]), folder, format="minari", overwrite=True)
    assert renames == []
    assert len(datasets.load(folder).episode_lengths()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hopper-medium-v2.hdf5", "walk-v0"]


def test_where_folders_cannot_change_places_a_killed_replacement_is_undone(tmp_path, monkeypatch):
    data, folder = datasets.load(file_with(tmp_path)), tmp_path / "walk-v0"
    datasets.save(data, folder, format="minari")
    folder.rename(files.unfinished(folder, "replaced"))  # killed between the two renames
    assert len(datasets.load(folder)) == len(data)
    monkeypatch.setattr(files, "exchange", lambda first, second: False)
    datasets.save(data.select_episodes([0]), folder, format="minari", overwrite=True)
    assert len(datasets.load(folder).episode_lengths()) == 1


def test_a_folder_reads_no_file_outside_of_it(tmp_path):
    folder = datasets.save(datasets.load(file_with(tmp_path)), tmp_path / "walk-v0", format="minari")
    (place,) = (folder / "data").glob("*.hdf5")
    place.rename(tmp_path / "elsewhere.hdf5")
    place.symlink_to(tmp_path / "elsewhere.hdf5")
    assert "is a link that leads out of the dataset" in refusal(folder)
