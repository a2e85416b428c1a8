"""Where a task's data comes from."""

import pytest

from ploff import datasets
from ploff.datasets.sources import short_names, source_of
from ploff.utils.errors import PloffError


def test_data_that_is_here_is_not_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("PLOFF_DATA", str(tmp_path))
    (tmp_path / "pen_human-v0.hdf5").touch()
    assert source_of("pen-human").status == "here"
    assert source_of("sample").status == "bundled"
    assert source_of("minari:mujoco/hopper/medium-v0").load == "mujoco/hopper/medium-v0"


def test_what_would_be_downloaded_is_what_load_would_download(tmp_path, monkeypatch):
    monkeypatch.setenv("PLOFF_DATA", str(tmp_path))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert source_of("hopper-medium-v2").status == "missing"  # a file of D4RL's, whatever its version
    assert source_of("pen-human-v1").load == "D4RL/pen/human-v2"
    assert source_of("foo-v0").status == "missing"  # no namespace: not a name of Minari's
    assert source_of("mujoco/hopper/medium-v0").status == "download"
    with pytest.raises(PloffError, match="hopper-medium-v2 is not here: put D4RL's hopper-medium-v2"):
        datasets.load("hopper-medium-v2")
    with pytest.raises(PloffError, match="unknown dataset 'foo-v0'"):
        datasets.load("foo-v0")


def test_files_of_one_name_are_told_apart():
    assert short_names(["sample", "a/log.npz"]) == {"sample": "sample", "a/log.npz": "log"}
    assert short_names(["b/log.npz", "a/log.npz"]) == {"b/log.npz": "b/log.npz", "a/log.npz": "a/log.npz"}
