from data_cases import make_rows, refusal, write_hdf5
from ploff import datasets
from ploff.actions import ActionSpace
from ploff.datasets import catalog


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
    assert len(set(catalog.PAPER_DATASETS)) == 24
    assert sum(catalog.minari_id(name) is not None for name in catalog.PAPER_DATASETS) == 12


def test_a_known_name_tells_environment_bounds_and_references(tmp_path):
    rows = make_rows("hopper", successors=True)
    transitions = datasets.load(write_hdf5(tmp_path / "hopper-medium-v2.hdf5", rows))
    assert transitions.origin.environment == "hopper"
    assert transitions.origin.physics == "d4rl"
    assert transitions.origin.reference_scores == (-20.272305, 3234.3)
    assert transitions.action_space == ActionSpace.box([-1] * 3, [1] * 3)


def test_the_papers_data_that_is_not_here_says_where_to_put_it():
    assert "PLOFF_DATA, or load 'D4RL/pen/human-v2' from Minari" in refusal("pen-human-v1")
    assert refusal("hopper-medium-v2").endswith("named by PLOFF_DATA")
