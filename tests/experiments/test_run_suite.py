"""A suite from its file to its tables."""

import csv
import dataclasses
import pathlib

import pytest

import ploff
from experiment_cases import scored_log, small_suite
from ploff import cli
from ploff.agents import get_method
from ploff.datasets.catalog import PAPER_DATASETS
from ploff.experiments.describe import describe
from ploff.experiments.paper import paper_scores
from ploff.experiments.run_folder import find_run_folders, read_run
from ploff.experiments.run_suite import load_results, run_suite
from ploff.experiments.suite import read_suite
from ploff.experiments.tables import Results

REPRODUCE = pathlib.Path(__file__).parents[2] / "reproduce"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    suite = small_suite(scored_log(folder), methods={"bc": {}, "td3-bc": {}}, seeds=1, steps=40)
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
    text = "\n".join(describe(suite, tmp_path))
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


def test_a_score_is_of_as_many_evaluations_as_the_suite_says(outcome):
    _, suite, folder = outcome
    _, plan, store = load_results(folder)
    for run in plan.runs:
        scores = [row["score"] for row in store.result(run.job.key)["evaluations"]]
        assert len(scores) == 2
        for count, expected in ((1, scores[1]), (3, sum(scores) / 2)):
            results = Results.of(dataclasses.replace(suite, last_evaluations=count), plan, store)
            assert results.scores[run.column][run.task] == [pytest.approx(expected)]
    last = run_suite(dataclasses.replace(suite, last_evaluations=1), folder, serial=True, quiet=True)
    for path in find_run_folders(folder):
        (seed,) = read_run(path).seeds
        assert seed.score == seed.evaluations[-1]["score"] == last.results.scores[read_run(path).method][run.task][0]


def test_a_cut_down_copy_of_table_1_runs_to_its_table_and_its_latex(tmp_path, monkeypatch):
    """Two tasks, two seeds, 2,000 steps, every column of the paper; the bundled sample in place of D4RL's files."""
    pytest.importorskip("mujoco")
    monkeypatch.setenv("PLOFF_DATA", str(tmp_path))
    tasks = ("halfcheetah-medium", "halfcheetah-medium-replay")
    few = ploff.load("sample").select_episodes(range(2))
    for task in tasks:
        ploff.save(few, tmp_path / f"{task}.hdf5")
    whole = read_suite(REPRODUCE / "table1.toml")
    columns = [made_small(column) for column in whole.columns if column.paper]
    metric = {"hidden_sizes": [8], "embedding_size": 4, "batch_size": 16, "num_next_actions": 2}
    lengths = {"steps": 2_000, "evaluate_every": 2_000, "episodes": 1, "metric_steps": 500}
    suite = dataclasses.replace(whole, tasks=tasks, columns=tuple(columns), seeds=(0, 1), metric=metric, **lengths)
    outcome = run_suite(suite, tmp_path / "out", serial=True, quiet=True)
    assert outcome.failures == []
    assert len(outcome.results.runs) == 2 * 9 * 2
    table = list(csv.reader((tmp_path / "out" / "table.csv").read_text().splitlines()))
    assert [row[0] for row in table] == ["task", *tasks, "mean, locomotion"]
    assert "–" not in {cell for row in table for cell in row}
    latex = (tmp_path / "out" / "table.tex").read_text()
    assert latex.startswith(r"\begin{tabular}{l" + 18 * "r" + "}")
    for column in columns:
        printed = paper_scores()[tasks[0], column.paper]
        assert str(printed).replace("±", r"$\pm$") in latex


def made_small(column):
    """The column with tiny networks and batches."""
    known = {field.name for field in dataclasses.fields(get_method(column.method).config_type)}
    small = {"batch_size": 8, **{name: [8] for name in known if name.endswith("hidden_sizes")}}
    return dataclasses.replace(column, settings={name: value for name, value in small.items() if name in known})
