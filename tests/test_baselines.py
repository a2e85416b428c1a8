"""The script behind the table of all methods: what it runs with, what it runs again, and how it sums up."""

import csv
import pathlib
import re

import pytest

from ploff import agents
from ploff.pipeline import Run
from ploff.pipeline.runs import SeedResult
from ploff.pipeline.settings import assignments, by_owner, method_config

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture
def baselines(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import baselines  # pyright: ignore[reportMissingImports]

    return baselines


def test_published_settings_are_settings_that_are_not_the_defaults(baselines):
    datasets = {dataset for dataset, _ in baselines.published_scores()}
    for row in baselines.beside_this("published_settings.csv"):
        method = agents.method(row["method"])
        changed = method_config(method, "default", {row["setting"]: row["value"]})
        assert changed != method.config(), row
        assert row["dataset"] in datasets
        assert row["source"]


def test_a_task_has_what_was_published_for_its_dataset_unless_told_otherwise(baselines):
    given = {"rebrac": {"batch": "64"}, "bc": {"batch": "8"}}
    settings = baselines.with_published("pen-expert-200k", given)
    assert settings["rebrac"]["batch"] == "64"
    assert settings["rebrac"]["actor_weight"] == "0.01"
    assert settings["bc"] == {"batch": "8"}
    assert baselines.with_published("our-own-log", given) == given


def test_a_score_is_the_mean_of_the_last_three_evaluations_and_only_what_lacks_it_is_run(baselines, tmp_path):
    path = tmp_path / "record.csv"
    columns = ["task", "method", "settings", "seed", "step", "score"]
    curves = {("bc", "", 0): [1.0, 2.0, 3.0, 4.0, 50.0], ("bc", "", 1): [7.0, 8.0], ("iql", "", 0): [9.0] * 4}
    curves["iql", "batch=8 expectile=0.5", 1] = [20.0] * 4
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for key, curve in curves.items():
            writer.writerows(["door", *key, 10 * (i + 1), score] for i, score in enumerate(curve))
    record = baselines.Record(path)
    default = {"bc": {}, "iql": {}}
    other = default | {"iql": {"expectile": "0.5", "batch": "8"}}
    assert record.scores("door", "bc", 40, {}) == {0: 3.0}  # seed 1 did not come so far, and 50 is later
    assert record.scores("door", "iql", 40, other["iql"]) == {1: 20.0}
    assert record.missing("door", ["bc", "iql"], 2, 40, default) == [([1], ["bc", "iql"])]
    assert record.missing("door", ["bc", "iql"], 2, 40, other) == [([1], ["bc"]), ([0], ["iql"])]
    assert record.missing("door", ["bc", "iql"], 1, 40, default) == []
    assert record.missing("pen", ["bc"], 2, 40, default) == [([0, 1], ["bc"])]


def test_an_evaluation_is_recorded_with_its_extremes_and_what_the_run_saw_of_its_values(baselines, tmp_path):
    history = [
        {"step": 5, "mean_q": 1.23456, "q_bound": 100.0},
        {"step": 10, "mean_q": 2.0, "critic_loss": 3.0},
    ]
    returns = {"return_0": 3.0, "return_1": 15.0, "return_2": 3.0, "mean_return": 7.0}
    evaluations = [{"step": step, "score": 50.126, **returns} for step in (10, 15)]
    run = Run(tmp_path, {"method": "iql"}, [SeedResult(0, 15, history, evaluations)])
    record = baselines.Record(tmp_path / "record.csv")
    record.put([{"task": "door", "method": "bc", "seed": 0, "step": 10, "score": 1.0, "settings": ""}])
    record.add("door", [run], {"iql": {"expectile": "0.5"}})
    older, at_ten, at_fifteen = record.rows()
    assert older["score"] == "1.0"
    assert older["mean_q"] == ""
    assert (at_ten["score"], at_ten["mean_q"], at_ten["settings"]) == ("50.13", "2", "expectile=0.5")
    assert (at_ten["worst_return"], at_ten["best_return"]) == ("3", "15")
    assert "critic_loss" not in at_ten
    assert at_fifteen["mean_q"] == ""  # nothing was told at that step


def test_means_over_tasks_are_of_seeds_that_every_task_has(baselines):
    assert baselines.means_over_tasks([{0: 1.0, 1: 5.0}, {0: 3.0}]) == [2.0]
    assert baselines.means_over_tasks([{0: 1.0}, {}]) == []


@pytest.mark.parametrize("page", ["methods.md", "agent.md"])
def test_tables_in_the_documentation_are_what_their_command_prints_of_the_record(baselines, page):
    text = (ROOT / "docs" / page).read_text()
    above, _, below = text.partition("| method | hopper-medium-expert |")
    shown = re.match(r"(\|.*\n)+", "| method | hopper-medium-expert |" + below)
    assert shown
    header, _, *rows = shown[0].splitlines()
    *_, command = re.findall(r"`python benchmarks/baselines\.py ([^`]*\s--set\s[^`]*)`", above)
    words = command.split()
    tasks = [cell.strip() for cell in header.split("|")[2:-2]]
    methods = [row.split("|")[1].strip() for row in rows]
    given = by_owner(assignments(words[words.index("--set") + 1 :]), methods)
    record = baselines.Record(ROOT / "benchmarks" / "results" / "baselines.csv")
    steps = int(words[words.index("--steps") + 1])
    assert baselines.table(record, tasks, methods, steps, given) == shown[0].rstrip()
