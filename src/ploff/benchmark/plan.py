"""From a suite's file to jobs: tasks × methods × settings × seeds, and what they build on.

    data ─┬─ metric ── neighbours ── parts of the search ── table ─┬─ run (seed 0)
          └────────────────────────────────────────────────────────┴─ run (seed 1) …

Stages are jobs of their own, so that all runs that need the same metric share it.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ploff import agents
from ploff.benchmark.jobs import Job
from ploff.benchmark.suite import Column, Suite
from ploff.pipeline import settings as pipeline_settings


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """One cell's one seed, and the job that does it."""

    task: str
    column: str
    seed: int
    job: Job


@dataclasses.dataclass(frozen=True)
class Plan:
    """Jobs, needs before what needs them, and which runs make up which cell of the table."""

    jobs: tuple[Job, ...]
    runs: tuple[PlannedRun, ...]

    @property
    def kinds(self) -> dict[str, int]:
        """How many jobs there are of each kind."""
        kinds = dict.fromkeys((job.kind for job in self.jobs), 0)
        for job in self.jobs:
            kinds[job.kind] += 1
        return kinds


def make_plan(suite: Suite) -> Plan:
    """Every job of a suite; equal jobs once."""
    return join([runs_of(suite, column, task) for task in suite.tasks for column in suite.columns])


def runs_of(
    suite: Suite,
    column: Column,
    task: str,
    *,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Plan:
    """The runs of one cell with what they build on.

    Args:
      suite: the tasks, lengths and seeds.
      column: the method with its settings.
      task: the dataset.
      seeds: other than the suite's.
      steps: other than the suite's.
      changes: settings that differ from the column's.
    """
    method = agents.method(column.method)
    given = {**column.settings_for(task), **(changes or {})}
    config = pipeline_settings.method_config(method, column.preset or suite.preset, given)
    training = pipeline_settings.agent_training(
        suite.preset,
        steps=steps or suite.steps,
        evaluate_every=suite.evaluate_every,
        episodes=suite.episodes,
    )
    stages = list(_stages(suite, column, task, method.evidence))
    arguments = {
        "task": task,
        "method": column.method,
        "settings": {name: _json(value) for name, value in dataclasses.asdict(config).items()},
        "training": dataclasses.asdict(training),
        "evidence": stages[-1].arguments.get("evidence", "none"),
    }
    runs = [
        PlannedRun(
            task,
            column.name,
            seed,
            Job(
                kind="run",
                arguments={**arguments, "seed": seed},
                needs=(stages[-1].key,),
                label=f"{task}, {column.name}{_changed(changes)}, seed {seed}",
            ),
        )
        for seed in (suite.seeds if seeds is None else seeds)
    ]
    return Plan((*stages, *(run.job for run in runs)), tuple(runs))


def join(plans: Sequence[Plan]) -> Plan:
    """Several plans as one: stages first, so that runs are not kept waiting for them; equal jobs once."""
    jobs = {job.key: job for plan in plans for job in plan.jobs}
    first = [job for job in jobs.values() if job.kind != "run"]
    last = [job for job in jobs.values() if job.kind == "run"]
    return Plan((*first, *last), tuple(run for plan in plans for run in plan.runs))


def _stages(suite: Suite, column: Column, task: str, kind: agents.EvidenceKind) -> Iterator[Job]:
    data = Job(kind="data", arguments={"task": task}, label=f"{task}, data")
    yield data
    if kind == "none":
        return
    before, evidence = data, "l2"
    if kind == "learned":
        before = _metric(suite, column, task, data)
        evidence = before.key
        yield before
    shared = {"task": task, "evidence": evidence}
    sought = f"{task}, neighbours ({kind})"
    prepared = Job(kind="neighbours", arguments=shared, needs=(before.key,), label=sought)
    parts = [
        Job(
            kind="part",
            arguments={**shared, "part": part, "parts": suite.neighbour_parts},
            needs=(prepared.key,),
            label=f"{sought}, part {part + 1}",
        )
        for part in range(suite.neighbour_parts)
    ]
    yield prepared
    yield from parts
    yield Job(
        kind="table",
        arguments={**shared, "parts": suite.neighbour_parts},
        needs=tuple(part.key for part in parts),
        label=f"{sought}, table",
    )


def _metric(suite: Suite, column: Column, task: str, data: Job) -> Job:
    preset = column.preset or suite.preset
    plan = pipeline_settings.metric_plan(preset, suite.metric_steps, {**suite.metric, **column.metric})
    arguments = {
        "task": task,
        "settings": {name: _json(value) for name, value in dataclasses.asdict(plan.config).items()},
        "training": dataclasses.asdict(plan.training),
    }
    return Job(kind="metric", arguments=arguments, needs=(data.key,), label=f"{task}, metric")


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _changed(changes: Mapping[str, Any] | None) -> str:
    return "".join(
        f" {name}={value:g}" if isinstance(value, float) else f" {name}={value}"
        for name, value in (changes or {}).items()
    )
