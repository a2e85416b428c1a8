"""Settings chosen by their scores, for each family of tasks: the paper's grid, or successive halving.

The score of a candidate is the mean over the family's tasks of the mean normalized score over the search's seeds. The
table's runs have other seeds, so that a setting is not judged by the runs that it was chosen for.

Both ways ask for jobs and read the store. What a search does next follows from results alone, in an order that does not
depend on which came first: run again, it takes the same way through what is stored, and runs what is missing.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ploff.experiments.config import AgentTraining
from ploff.experiments.jobs import Job
from ploff.experiments.plan import Plan, join_plans, plan_cell
from ploff.experiments.run_folder import mean_of_last
from ploff.experiments.store import Store
from ploff.experiments.suite import Column, Search, Suite
from ploff.utils.errors import PloffError, require

Settings = dict[str, Any]
RunJobs = Callable[[Sequence[Job]], object]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The settings that a search chose, and the score of every candidate that went all the way."""

    column: str
    family: str
    settings: Settings
    score: float
    scores: tuple[tuple[Settings, float], ...]


def with_chosen_settings(suite: Suite, run: RunJobs, store: Store) -> tuple[Suite, list[Choice]]:
    """The suite with its search's choices as settings; `run` does jobs and puts them into the store."""
    if suite.search is None:
        return suite, []
    choices = []
    for column, family, tasks in searched(suite):
        if suite.search.kind == "grid":
            choices.append(_by_grid(suite, column, family, tasks, run, store))
        else:
            choices.append(_by_halving(suite, column, family, tasks, run, store))
    columns = {column.name: column for column in suite.columns}
    for choice in choices:
        columns[choice.column] = columns[choice.column].with_chosen(choice.family, choice.settings)
    return dataclasses.replace(suite, columns=tuple(columns.values()), search=None), choices


def searched(suite: Suite) -> Iterator[tuple[Column, str, list[str]]]:
    """The columns and families of tasks that the search chooses settings for."""
    assert suite.search is not None
    for name in suite.search.columns:
        for family, tasks in suite.families.items():
            yield suite.column(name), family, tasks


def candidates(search: Search) -> list[Settings]:
    """Every combination of the space's values."""
    return [dict(zip(search.space, values, strict=True)) for values in itertools.product(*search.space.values())]


def first_plan(suite: Suite) -> Plan:
    """What the search is sure to run: all of a grid, the first stage of halving."""
    search = suite.search
    assert search is not None
    steps = None if search.kind == "grid" else search.first_steps
    return join_plans(
        [
            _candidate(suite, column, tasks, settings, steps)
            for column, _, tasks in searched(suite)
            for settings in candidates(search)
        ]
    )


def rungs(suite: Suite) -> list[int]:
    """The steps at which halving compares: the first, each `factor` times the one before, up to the suite's own."""
    search = suite.search
    assert search is not None
    assert search.first_steps is not None
    training = AgentTraining.of(suite.preset, steps=suite.steps, evaluate_every=suite.evaluate_every)
    if search.first_steps % training.evaluate_every:
        raise PloffError(
            f"first_steps must be a multiple of evaluate_every, so that a candidate which goes on is the run it would "
            f"have been; got {search.first_steps} and {training.evaluate_every}"
        )
    steps = [search.first_steps]
    while steps[-1] * search.factor < training.steps:
        steps.append(steps[-1] * search.factor)
    return [*steps, training.steps] if steps[-1] < training.steps else [training.steps]


def _by_grid(suite: Suite, column: Column, family: str, tasks: list[str], run: RunJobs, store: Store) -> Choice:
    assert suite.search is not None
    plans = [(settings, _candidate(suite, column, tasks, settings)) for settings in candidates(suite.search)]
    run(join_plans([plan for _, plan in plans]).jobs)
    scores = [(settings, _score(plan, store, suite.num_last)) for settings, plan in plans]
    return _choice(column, family, scores)


def _by_halving(suite: Suite, column: Column, family: str, tasks: list[str], run: RunJobs, store: Store) -> Choice:
    """Optuna's successive halving: after each rung, a candidate goes on if it is among the best 1/factor so far.

    Candidates are told in a fixed order once all of a rung are done. The best one goes on from any place in it; the
    order is shuffled, because in a grid's own order each could be a little better than all before it.
    """
    search = suite.search
    assert search is not None
    optuna = require("optuna", extra="search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=search.first_steps, reduction_factor=search.factor)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    order = np.random.default_rng(0).permutation(len(candidates(search)))
    shuffled = [candidates(search)[place] for place in order]
    alive = [(_ask(study, settings, search), settings) for settings in shuffled]
    scores: list[tuple[Settings, float]] = []
    for steps in rungs(suite):
        plans = [_candidate(suite, column, tasks, settings, steps) for _, settings in alive]
        run(join_plans(plans).jobs)
        found = [_score(plan, store, suite.num_last) for plan in plans]
        scores = [(settings, score) for (_, settings), score in zip(alive, found, strict=True)]
        for (trial, _), (_, score) in zip(alive, scores, strict=True):
            trial.report(score, steps)
        alive = [(trial, settings) for trial, settings in alive if not trial.should_prune()]
    return _choice(column, family, scores)


def _ask(study: Any, settings: Settings, search: Search) -> Any:
    study.enqueue_trial(settings)
    trial = study.ask()
    for name, values in search.space.items():
        trial.suggest_categorical(name, values)
    return trial


def _candidate(suite: Suite, column: Column, tasks: list[str], settings: Settings, steps: int | None = None) -> Plan:
    assert suite.search is not None
    seeds = suite.search.search_seeds
    return join_plans([plan_cell(suite, column, task, seeds=seeds, steps=steps, changes=settings) for task in tasks])


def _score(plan: Plan, store: Store, num_last: int) -> float:
    """The candidate's mean score; one of which a run failed comes last."""
    if not all(store.is_done(run.job.key) for run in plan.runs):
        return -math.inf
    by_task: dict[str, list[float]] = {}
    for run in plan.runs:
        score = mean_of_last(store.result(run.job.key)["evaluations"], "score", num_last)
        by_task.setdefault(run.task, []).append(-math.inf if score is None else score)
    means = [sum(scores) / len(scores) for scores in by_task.values()]
    return sum(means) / len(means)


def _choice(column: Column, family: str, scores: list[tuple[Settings, float]]) -> Choice:
    settings, best = max(scores, key=lambda item: item[1])
    if best == -math.inf:
        raise PloffError(f"no candidate of {column.name} ran to its end on {family} tasks; the failures say why")
    return Choice(column.name, family, settings, best, tuple(scores))
