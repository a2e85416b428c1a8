"""From a suite to jobs: tasks × methods × settings × seeds, and what they build on.

    data ── relevance ─┬─ metric ── neighbors ── parts of the search ── table ─┬─ agent (seed 0)
                       └───────────────────────────────────────────────────────┴─ agent (seed 1) …

Stages are jobs of their own, so that all runs that need the same metric share it: those of all seeds, unless the suite
wants a metric for each.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ploff.agents import DistanceKind, get_method
from ploff.datasets.sources import short_name
from ploff.experiments.config import AgentTraining, Preset, metric_config, metric_training, relevance_config
from ploff.experiments.jobs import Job
from ploff.experiments.suite import Column, Suite
from ploff.utils.config import to_plain


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """One seed of one cell, and the job that does it."""

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
    return join_plans([plan_cell(suite, column, task) for task in suite.tasks for column in suite.columns])


def plan_cell(
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
    method = get_method(column.method)
    config = suite.config_of(column, task, changes)
    training = AgentTraining.of(
        suite.preset,
        steps=steps or suite.steps,
        evaluate_every=suite.evaluate_every,
        episodes=suite.episodes,
        hold_out=suite.hold_out,
        select=suite.select,
    )
    arguments = {
        **_data_arguments(suite, task),
        "method": column.method,
        "settings": to_plain(config),
        "training": training.to_plain(),
        "logger": suite.logger,
    }
    name = column.name if len(suite.tasks) == 1 else f"{short_name(task)}, {column.name}"
    jobs, runs = list[Job](), list[PlannedRun]()
    for seed in suite.seeds if seeds is None else seeds:
        metric_seed = seed if suite.metric_per_seed else column.metric_seed
        stages = list(plan_stages(suite, column, task, method.distance, metric_seed))
        run = Job(
            kind="agent",
            arguments={**arguments, **_builds_on(stages), "seed": seed},
            needs=(stages[-1].key,),
            label=f"{name}{_changed(changes)} seed {seed}",
        )
        jobs += stages
        runs.append(PlannedRun(task, column.name, seed, run))
    return Plan((*{job.key: job for job in jobs}.values(), *(run.job for run in runs)), tuple(runs))


def join_plans(plans: Sequence[Plan]) -> Plan:
    """Several plans as one: stages first, so that runs are not kept waiting for them; equal jobs once."""
    jobs = {job.key: job for plan in plans for job in plan.jobs}
    first = [job for job in jobs.values() if job.kind != "agent"]
    last = [job for job in jobs.values() if job.kind == "agent"]
    return Plan((*first, *last), tuple(run for plan in plans for run in plan.runs))


def plan_stages(suite: Suite, column: Column, task: str, kind: DistanceKind, metric_seed: int = 0) -> Iterator[Job]:
    """What a run builds on: its data, and the metric and neighbors where its method measures distances."""
    prefix = "" if len(suite.tasks) == 1 else f"{short_name(task)}, "
    arguments = {**_data_arguments(suite, task), "scored": suite.scored}
    data = Job(kind="data", arguments=arguments, label=f"{prefix}data")
    yield data
    before, shared = data, {"task": task, "reading": suite.reading}
    if kind == "learned" and suite.metric_from is not None:  # it has its coordinates already
        shared["metric"] = suite.metric_from
    else:
        if suite.uses_relevance(column):
            before = _relevance_job(column.preset or suite.preset, shared, f"{prefix}relevance", data)
            yield before
        if kind == "none":
            return
        if kind == "learned":
            prefix += f"seed {metric_seed}: " if metric_seed else ""
            before = _metric_job(suite, column, shared, f"{prefix}metric", before, metric_seed)
            yield before
            shared["metric"] = before.key
        else:
            shared["metric"] = "l2" if before is data else f"l2-{before.key}"
    label = f"{prefix}neighbors{' (l2)' if kind == 'l2' else ''}"
    index = Job(kind="neighbors", arguments=shared, needs=(before.key,), label=label)
    parts = [
        Job(
            kind="neighbors-part",
            arguments={**shared, "part": part, "parts": suite.neighbor_parts},
            needs=(index.key,),
            label=f"{label}, part {part + 1}",
        )
        for part in range(suite.neighbor_parts)
    ]
    yield index
    yield from parts
    yield Job(
        kind="neighbors-table",
        arguments={**shared, "parts": suite.neighbor_parts},
        needs=tuple(part.key for part in parts),
        label=f"{label}, table",
    )


def _builds_on(stages: Sequence[Job]) -> dict[str, Any]:
    """The keys of what an agent builds on, by what they are."""
    relevance = next((stage.key for stage in stages if stage.kind == "relevance"), None)
    return {"metric": stages[-1].arguments.get("metric", "none"), "relevance": relevance}


def _relevance_job(preset: Preset, shared: dict[str, Any], label: str, data: Job) -> Job:
    arguments = {**shared, "config": to_plain(relevance_config(preset))}
    return Job(kind="relevance", arguments=arguments, needs=(data.key,), label=label)


def _metric_job(suite: Suite, column: Column, shared: dict[str, Any], label: str, before: Job, seed: int) -> Job:
    preset = column.preset or suite.preset
    arguments = {
        **shared,
        "relevance": before.key if before.kind == "relevance" else None,
        "config": to_plain(metric_config(preset, {**suite.metric, **column.metric})),
        "training": to_plain(metric_training(preset, column.metric_steps or suite.metric_steps, seed)),
    }
    return Job(kind="metric", arguments=arguments, needs=(before.key,), label=label)


def _data_arguments(suite: Suite, task: str) -> dict[str, Any]:
    return {"task": task, "reading": suite.reading, "environment": suite.environment, "physics": suite.physics}


def _changed(changes: Mapping[str, Any] | None) -> str:
    return "".join(
        f" {name}={value:g}" if isinstance(value, float) else f" {name}={value}"
        for name, value in (changes or {}).items()
    )
