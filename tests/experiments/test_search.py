"""Settings chosen by their scores."""

import math

import pytest

from experiment_cases import planned_suite, scoring
from ploff.experiments import search
from ploff.experiments.store import Store
from ploff.utils.errors import PloffError


@pytest.mark.parametrize("kind", ["grid", "halving"])
def test_a_search_finds_the_best_settings_of_each_family_on_seeds_of_its_own(kind, tmp_path):
    space = {"actor_bonus_weight": [1.0, 5.0, 10.0], "beta": [0.1, 0.25, 0.5]}
    given = {"columns": ["ploff"], "space": space, "kind": kind, "seeds": 2}
    if kind == "halving":
        pytest.importorskip("optuna")
        given["first_steps"] = 100
    methods = {"ploff": {}, "bc": {}}
    suite = planned_suite(tasks=["hopper-medium", "pen-human"], methods=methods, steps=900, search=given)
    best = {"hopper-medium": (5.0, 0.25), "pen-human": (10.0, 0.5)}

    def score(arguments):
        weight, beta = best[arguments["task"]]
        found = arguments["settings"]
        return 100 - abs(found["actor_bonus_weight"] - weight) - abs(found["beta"] - beta)

    store = Store(tmp_path)
    run, done = scoring(score, store)
    chosen, choices = search.with_chosen_settings(suite, run, store)
    assert chosen.column("ploff").families == {
        "locomotion": {"actor_bonus_weight": 5.0, "beta": 0.25},
        "hand": {"actor_bonus_weight": 10.0, "beta": 0.5},
    }
    assert [choice.score for choice in choices] == [100, 100]
    runs = [job for job in done if job.kind == "agent"]
    assert {job.arguments["seed"] for job in runs}.isdisjoint(suite.seeds)
    whole = [job for job in runs if job.arguments["training"]["steps"] == 900]
    assert len(whole) == 2 * 9 * 2 if kind == "grid" else len(whole) < 2 * 9 * 2 / 2
    again, rerun = scoring(score, store)
    assert search.with_chosen_settings(suite, again, store)[0] == chosen
    assert rerun == []


def test_halving_compares_at_steps_that_grow_by_its_factor():
    given = {"columns": ["ploff"], "space": {"beta": [1.0]}, "kind": "halving", "first_steps": 100}
    assert search.rungs(planned_suite(steps=1000, search=given)) == [100, 300, 900, 1000]
    assert search.rungs(planned_suite(steps=900, search=given)) == [100, 300, 900]
    assert search.rungs(planned_suite(steps=50, search=given)) == [50]
    with pytest.raises(PloffError, match="multiple of evaluate_every"):
        search.rungs(planned_suite(steps=900, search={**given, "first_steps": 120}))


def test_a_candidate_of_which_a_run_failed_is_not_chosen(tmp_path):
    given = {"columns": ["ploff"], "space": {"beta": [1.0, 2.0]}, "seeds": 1}
    store = Store(tmp_path)
    run, _ = scoring(lambda arguments: None if arguments["settings"]["beta"] == 1.0 else -5.0, store)
    _, choices = search.with_chosen_settings(planned_suite(search=given), run, store)
    assert choices[0].settings == {"beta": 2.0}
    assert choices[0].scores[0][1] == -math.inf
    all_fail, _ = scoring(lambda _: None, store)
    with pytest.raises(PloffError, match="no candidate of ploff ran to its end"):
        search.with_chosen_settings(planned_suite(search={**given, "space": {"beta": [3.0]}}), all_fail, store)
