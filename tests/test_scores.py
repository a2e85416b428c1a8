"""The script behind the documentation's tables of scores: what it takes from a suite, and how it sums up."""

import csv
import pathlib
import re

import pytest

from experiment_cases import scored_log, small_suite
from ploff.experiments.run_suite import run_suite
from ploff.experiments.suite import read_suite

ROOT = pathlib.Path(__file__).parents[1]
SUITES = ("baselines", "five-tasks")


@pytest.fixture
def scores(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import scores  # pyright: ignore[reportMissingImports]

    return scores


def test_settings_that_are_not_defaults_are_told_by_name(scores):
    suite = read_suite(ROOT / "reproduce" / "baselines.toml")
    told = {name: scores.settings_text(suite, suite.column(name), "pen-expert") for name in ("bc", "rebrac", "iql")}
    assert told["bc"] == ""
    assert told["rebrac"] == "actor_bc_weight=0.01 actor_lr=0.0003 batch_size=256 critic_lr=0.0003"
    assert told["iql"] == "reward_scale=none temperature=0.5"


def test_a_score_is_the_mean_of_the_last_three_evaluations(scores, tmp_path):
    path = tmp_path / "record.csv"
    curves = {
        ("bc", "", 0): [1.0, 2.0, 3.0, 4.0, 50.0],
        ("bc", "", 1): [7.0, 8.0],
        ("iql", "expectile=0.5", 1): [20.0] * 4,
    }
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "method", "settings", "seed", "step", "score"])
        for key, curve in curves.items():
            writer.writerows(["door", *key, 10 * (i + 1), score] for i, score in enumerate(curve))
    record = scores.Record(path)
    assert record.scores("door", "bc", "", 40) == {0: 3.0}  # seed 1 did not come so far, and 50 is later
    assert record.scores("door", "iql", "expectile=0.5", 40) == {1: 20.0}
    assert record.scores("door", "iql", "", 40) == {}


def test_a_suites_evaluations_are_added_with_their_extremes_and_what_was_seen_of_values(scores, tmp_path):
    tiny = {"settings": {"hidden_sizes": [8, 8], "batch_size": 16}}
    suite = small_suite(scored_log(tmp_path), methods={"td3-bc": tiny}, seeds=1)
    run_suite(suite, tmp_path / "out", serial=True, quiet=True)
    record = scores.Record(tmp_path / "record.csv")
    record.put([{"task": "door", "method": "bc", "seed": 0, "step": 10, "score": 1.0, "settings": ""}])
    for _ in range(2):  # added twice, they are there once
        record.add(tmp_path / "out")
    older, first, second = scores.read_csv(record.path)
    assert (older["score"], older["mean_q"]) == ("1.0", "")
    assert (first["task"], first["method"], first["step"], second["step"]) == ("swings", "td3-bc", "20", "40")
    assert first["settings"] == "batch_size=16 hidden_sizes=[8, 8]"
    assert float(first["min_return"]) <= float(first["mean_return"]) + 1
    assert first["mean_q"] != ""


def test_means_over_tasks_are_of_seeds_that_every_task_has(scores):
    assert scores.means_over_tasks([{0: 1.0, 1: 5.0}, {0: 3.0}]) == [2.0]
    assert scores.means_over_tasks([{0: 1.0}, {}]) == []


@pytest.mark.parametrize("name", SUITES)
def test_tables_in_the_documentation_are_what_the_record_says(scores, name):
    """A table stands behind the command that prints it."""
    suite = read_suite(ROOT / "reproduce" / f"{name}.toml")
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    command = f"`python benchmarks/scores.py reproduce/{name}.toml`"
    shown = [re.search(r"(?:^\|.*\n)+", page[page.index(command) :], re.MULTILINE) for page in pages if command in page]
    assert shown, f"no page names {command}"
    record = scores.Record(ROOT / "benchmarks" / "results" / "baselines.csv")
    for table in shown:
        assert table is not None
        assert scores.table(record, suite, suite.steps) == table[0].rstrip()
