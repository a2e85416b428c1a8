"""A suite from its file to its tables."""

import pathlib

import pytest

from experiment_cases import scored_log, small_suite
from ploff import cli
from ploff.datasets.catalog import PAPER_DATASETS
from ploff.experiments.run_suite import describe, load_results, run_suite
from ploff.experiments.suite import read_suite

REPRODUCE = pathlib.Path(__file__).parents[2] / "reproduce"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    suite = small_suite(scored_log(folder), methods={"bc": {}, "td3-bc": {}}, seeds=1, steps=20)
    return run_suite(suite, folder / "out", serial=True, quiet=True), suite, folder / "out"


def test_a_suite_that_is_run_again_runs_nothing_and_writes_the_same_tables(outcome):
    first, suite, folder = outcome
    assert first.failures == []
    before = len((folder / "results.jsonl").read_text().splitlines())
    tables = {path.name: path.read_text() for path in folder.glob("table*")}
    again = run_suite(suite, folder, serial=True, quiet=True)
    assert again.results == first.results
    assert len((folder / "results.jsonl").read_text().splitlines()) == before
    assert tables == {path.name: path.read_text() for path in folder.glob("table*")}
    assert "| swings |" in tables["tables.md"]


def test_results_are_read_back_with_their_suite_and_plan(outcome):
    _, suite, folder = outcome
    found, plan, store = load_results(folder)
    assert found == suite
    assert all(store.is_done(job.key) for job in plan.jobs)


def test_the_suite_of_table_1_plans_the_papers_24_datasets_and_says_what_it_would_download(tmp_path, monkeypatch):
    monkeypatch.setenv("PLOFF_DATA", str(tmp_path))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    suite = read_suite(REPRODUCE / "table1.toml")
    assert set(suite.tasks) == set(PAPER_DATASETS)
    assert len(suite.tasks) == 24
    assert len(suite.seeds) == 10
    text = "\n".join(describe(suite, tmp_path, slots=2))
    assert "pen-human: to be downloaded from Minari: D4RL/pen/human-v2 (D4RL pen-human, Minari" in text
    assert "hopper-medium: not here: put D4RL's hopper-medium (.hdf5) into this folder" in text
    assert text.count("to be downloaded from Minari") == 12
    assert text.count("not here: put D4RL's") == 12


def test_the_command_says_what_it_would_do_and_what_is_wrong_in_one_line(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text('tasks = ["sample"]\nseeds = 2\n[methods.bc]\n')
    cli.main(["benchmark", str(tmp_path / "mine.toml"), "--dry-run", "--out", str(tmp_path / "out")])
    shown = capsys.readouterr().out
    assert "suite mine" in shown
    assert "jobs: 1 data, 2 agent" in shown
    assert not (tmp_path / "out").exists()
    (tmp_path / "bad.toml").write_text('tasks = ["sample"]\n[methods.cb]\n')
    for arguments in (
        ["absent.toml"],
        ["bad.toml"],
        ["mine.toml", "--workers", "0"],
        ["mine.toml", "--workers", "1", "--ray", "auto"],
    ):
        with pytest.raises(SystemExit) as leaving:
            cli.main(["benchmark", str(tmp_path / arguments[0]), *arguments[1:], "--out", str(tmp_path / "out")])
        assert leaving.value.code == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
