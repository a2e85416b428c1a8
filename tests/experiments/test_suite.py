"""Suite files: what they say, and what is wrong with them in one line."""

import pathlib

import pytest

from experiment_cases import planned_suite
from ploff.datasets.catalog import family_of
from ploff.experiments.plan import make_plan
from ploff.experiments.suite import parse_suite, read_suite, suite_to_plain
from ploff.utils.errors import PloffError

SUITES = sorted((pathlib.Path(__file__).parents[2] / "reproduce").glob("*.toml"))


def test_settings_of_a_family_hold_there_only_and_those_of_a_dataset_beat_them():
    method = {
        "settings": {"actor_bonus_weight": 5.0},
        "families": {"hand": {"actor_bonus_weight": 10.0}},
        "datasets": {"door-human": {"actor_bonus_weight": 7.0}},
    }
    suite = planned_suite(tasks=["hopper-medium", "pen-human", "door-human", "sample"], methods={"ploff": method})
    weights = {run.task: run.job.arguments["settings"]["actor_bonus_weight"] for run in make_plan(suite).runs}
    assert weights == {"hopper-medium": 5.0, "pen-human": 10.0, "door-human": 7.0, "sample": 5.0}
    assert [family_of(task) for task in suite.tasks] == ["locomotion", "hand", "hand", "other"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": 5}, "unknown key of suite 'step'; did you mean"),
        ({"methods": {"plof": {}}}, "unknown method 'plof'; did you mean 'ploff'"),
        ({"methods": {"ploff": {"setings": {}}}}, "unknown key of method 'ploff' 'setings'"),
        ({"methods": {"ploff": {"settings": {"betta": 1.0}}}}, "unknown setting of ploff 'betta'"),
        ({"methods": {"ploff": {"settings": {"sharpness": 1.0}}}}, "'sharpness' is called 'beta' now"),
        ({"neighbour_parts": 2}, "'neighbour_parts' is called 'neighbor_parts' now"),
        ({"metric": {"rows": 16}}, "setting of the metric 'rows' is called 'batch_size' now"),
        ({"methods": {}}, "needs tasks, methods, seeds"),
        ({"preset": "slow"}, "unknown preset 'slow'"),
        ({"search": {"columns": ["cql"], "space": {"a": [1]}}}, "unknown method of the suite 'cql'"),
        ({"search": {"columns": ["bc"], "space": {"a": [1]}, "kind": "guess"}}, "unknown kind of search"),
        ({"search": {"columns": ["bc"], "space": {}}}, "needs a space"),
    ],
)
def test_what_is_wrong_with_a_suite_is_said_in_one_line(changes, message):
    with pytest.raises(PloffError, match=message) as error:
        make_plan(planned_suite(**changes))
    assert "\n" not in str(error.value)


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "bad.toml").write_text("tasks = [")
    with pytest.raises(PloffError, match=r"bad\.toml is not valid TOML"):
        read_suite(tmp_path / "bad.toml")
    with pytest.raises(PloffError, match=r"no file '.*bat\.toml'; did you mean '.*bad\.toml'\?"):
        read_suite(tmp_path / "bat.toml")


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_the_published_suites_can_be_planned(path):
    suite = read_suite(path)
    assert suite.name == path.stem
    assert parse_suite(suite_to_plain(suite)) == suite


def test_the_preset_paper_has_the_weights_of_a_tasks_family_and_says_where_none_is_known():
    suite = planned_suite(tasks=["hopper-medium", "pen-human", "mine.npz"], preset="paper", methods={"ploff": {}})
    found = {
        run.task: tuple(run.job.arguments["settings"][name] for name in ("actor_bonus_weight", "critic_bonus_weight"))
        for run in make_plan(suite).runs
    }
    assert found == {"hopper-medium": (5.0, 1.0), "pen-human": (10.0, 10.0), "mine.npz": (5.0, 1.0)}
    said = "ploff has the paper's weights for locomotion on mine: no other family is known"
    assert suite.notes == [said]
    chosen = {"ploff": {"settings": {"actor_bonus_weight": 1.0, "critic_bonus_weight": 1.0}}}
    assert planned_suite(tasks=["mine.npz"], preset="paper", methods=chosen).notes == []
    assert planned_suite(tasks=["mine.npz"], methods={"ploff": {}, "bc": {}}).notes == []


def test_a_suite_says_how_many_evaluations_make_a_score_and_the_paper_takes_the_last():
    assert [planned_suite(preset=preset).num_last for preset in ("default", "quick", "paper")] == [3, 3, 1]
    assert planned_suite(preset="paper", last_evaluations=5).num_last == 5
    with pytest.raises(PloffError, match="last_evaluations must be at least 1"):
        planned_suite(last_evaluations=0)
