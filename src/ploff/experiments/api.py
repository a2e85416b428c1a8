"""From a log to evaluated policies, in one call: a suite with one cell, or with one column per method."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from ploff import datasets, tasks
from ploff.agents.base import method_for
from ploff.environments import Physics, registry
from ploff.environments.eval_env import EvalEnv, find_eval_env
from ploff.environments.evaluation import Evaluation
from ploff.experiments import logs, run_folder, stages
from ploff.experiments.config import METRIC, Preset, Selection, by_owner, check_preset, relevance_config
from ploff.experiments.jobs import Job
from ploff.experiments.plan import make_plan
from ploff.experiments.run_folder import POLICY, SUITE, Run, find_metric, find_run_folders, read_run
from ploff.experiments.run_suite import SuiteOutcome, engine, run_suite
from ploff.experiments.store import Record
from ploff.experiments.suite import Column, Suite
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import CHECKPOINT, MetricTraining
from ploff.training.checkpoint import load_header
from ploff.training.loggers import check_logger
from ploff.transitions import Transitions
from ploff.utils.config import structure_fields, to_plain
from ploff.utils.cores import available_cores
from ploff.utils.errors import PloffError
from ploff.utils.progress import follow, say

Path = str | os.PathLike[str]


def train(
    dataset: Path | Transitions,
    method: str = "ploff",
    *,
    out: Path,
    steps: int | None = None,
    seeds: int | Sequence[int] = 1,
    preset: Preset = "default",
    settings: Mapping[str, Any] | None = None,
    metric: Path | None = None,
    metric_steps: int | None = None,
    relevance: bool | None = None,
    environment: str | None = None,
    physics: Physics | None = None,
    evaluate_every: int | None = None,
    episodes: int | None = None,
    hold_out: float | None = None,
    select: Selection | None = None,
    logger: str | None = None,
    reading: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Run:
    """Trains a method on a log. Called again with the same `out`, it resumes.

    Args:
      dataset: what `ploff.load` takes, or transitions as loaded.
      method: a name of `ploff.agents.METHODS`.
      out: the folder of results; what was learned there from this log is used again.
      steps: number of training steps.
      seeds: how many, from 0; or which.
      preset: "default", "paper" (as printed and as long), or "quick" (a first look).
      settings: settings of the method by name, of the metric as metric.NAME; text is read as the setting's type.
      metric: a folder that `ploff metric` or `ploff train` made, whose metric is used instead of learning one.
      metric_steps: maximum number of steps of metric learning; by default until it settles.
      relevance: whether observations are seen in the coordinates that matter; by default as the method does.
      environment: where the policy is evaluated; by default where the log comes from. "none": nowhere.
      physics: the physics of that environment; by default the log's.
      evaluate_every: steps between evaluations.
      episodes: episodes per evaluation.
      hold_out: share of the log's episodes that is kept from training, for `ploff.judge`; none by default.
      select: "judge" keeps policies on the way and takes the one that is judged best by the log; "last" by default.
      logger: also write to "tensorboard" or "wandb".
      reading: keywords of `ploff.load` for a file that leaves something open.
      quiet: show no progress.

    Returns:
      The run: its folder, its configuration, and what each seed has reached.
    """
    return compare(
        dataset, [method], out=out, steps=steps, seeds=seeds, preset=preset, settings=settings, metric=metric,
        metric_steps=metric_steps, relevance=relevance, environment=environment, physics=physics,
        evaluate_every=evaluate_every, episodes=episodes, hold_out=hold_out, select=select, logger=logger,
        reading=reading, quiet=quiet,
    )[0]  # fmt: skip


def compare(
    dataset: Path | Transitions,
    methods: Sequence[str],
    *,
    out: Path,
    seeds: int | Sequence[int] = 1,
    preset: Preset = "default",
    settings: Mapping[str, Any] | None = None,
    metric: Path | None = None,
    relevance: bool | None = None,
    environment: str | None = None,
    physics: Physics | None = None,
    hold_out: float | None = None,
    select: Selection | None = None,
    logger: str | None = None,
    reading: Mapping[str, Any] | None = None,
    quiet: bool = False,
    **lengths: int | None,
) -> list[Run]:
    """Trains several methods on a log, side by side; they share the metric.

    Args:
      dataset: what `ploff.load` takes, or transitions as loaded.
      methods: names of `ploff.agents.METHODS`.
      out: the folder of results.
      settings: a setting is for all methods, or for one as METHOD.NAME.
      seeds, preset, metric, relevance, environment, physics, hold_out, select, logger, reading, quiet, **lengths: as
        for `train`.

    Returns:
      One run per method.
    """
    out = pathlib.Path(out)
    check_preset(preset)
    check_logger(logger)
    owned, chosen = by_owner(settings or {}, methods), _seeds(seeds)
    suite = Suite(
        name=out.resolve().name,
        tasks=(dataset_name(dataset, out),),
        columns=tuple(Column(name=name, method=name, settings=owned[name]) for name in methods),
        seeds=chosen,
        preset=preset,
        metric=structure_fields(MetricConfig, owned[METRIC], "setting of the metric"),
        reading=given_reading(reading),
        relevance=relevance,
        environment=environment,
        physics=physics,
        hold_out=hold_out,
        select=select,
        logger=logger,
        scored=False,
        **lengths,  # pyright: ignore[reportArgumentType]
    )
    plan = make_plan(suite)  # what is wrong with it is said before anything is done
    run_folder.refuse_other_version(out)
    data = dataset if isinstance(dataset, Transitions) else datasets.load(dataset, **suite.reading)
    suite = _with_methods_for(suite, data, quiet)
    plan = make_plan(suite)
    if metric is not None:
        suite = _with_metric_from(suite, pathlib.Path(metric), data)
    env = find_eval_env(data, environment, physics)
    if env is None and environment is None and data.origin.environment is None and not quiet:
        say(f"no environment is known for {data.origin.name}: policies are not evaluated (--environment names one)")
    if isinstance(dataset, Transitions) and not pathlib.Path(suite.tasks[0]).exists():
        datasets.save(data, suite.tasks[0])
    logs.refuse_changed_data(data, suite.tasks[0], out)
    logs.provide(suite.tasks[0], data)
    serial = len(plan.runs) == 1 or not _can_travel(env)
    outcome = run_suite(suite, out, workers=_workers(len(plan.runs)), serial=serial, quiet=quiet)
    _raise_failures(outcome.failures, len(plan.runs))
    return _runs(outcome, out)


def learn_metric_in(
    dataset: Path,
    out: Path,
    *,
    preset: Preset,
    config: Mapping[str, Any],
    training: Mapping[str, Any],
    relevance: bool | None = None,
    reading: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> pathlib.Path:
    """Learns the metric of a log in a folder, as `ploff train` would; returns the metric's own folder."""
    out, task = pathlib.Path(out), absolute_name(dataset)
    make = (MetricConfig.paper, MetricTraining.paper) if preset == "paper" else (MetricConfig, MetricTraining)
    shared = {"task": task, "reading": given_reading(reading)}
    data = Job(kind="data", arguments={**shared, "environment": "none", "physics": None, "scored": False}, label="data")
    jobs, arguments = [data], {**shared, "relevance": None}
    if relevance if relevance is not None else preset != "paper":
        content = {**shared, "config": to_plain(relevance_config(preset))}
        jobs.append(Job(kind="relevance", arguments=content, needs=(data.key,), label="relevance"))
        arguments["relevance"] = jobs[-1].key
    arguments |= {"config": to_plain(make[0](**config)), "training": to_plain(make[1](**training))}
    job = Job(kind="metric", arguments=arguments, needs=(jobs[-1].key,), label="metric")
    run_folder.refuse_other_version(out)
    logs.provide(task, datasets.load(dataset, **shared["reading"]))
    with engine(out, serial=True, quiet=quiet) as (run, _, _):
        _raise_failures(run([*jobs, job]), 1)
    return run_folder.metric_folder(out, task, job.key)


def evaluate_run(
    run: Path,
    *,
    episodes: int = 10,
    seed: int = 0,
    environment: str | None = None,
    physics: Physics | None = None,
    quiet: bool = False,
) -> dict[str, Evaluation]:
    """Evaluates trained policies in new episodes; what was evaluated alike before is read from the results.

    Args:
      run: what `ploff train` or `ploff benchmark` made, or a policy's file.
      episodes: episodes per policy.
      seed: decides the episodes.
      environment: where; by default where the policy was evaluated in training.
      physics: the physics of that environment.
      quiet: show no progress.

    Returns:
      The evaluations by policy, "METHOD seed N".
    """
    path = pathlib.Path(run)
    runs = [] if path.is_file() else find_run_folders(path)
    policies = [policy for run in runs for policy in sorted(run.glob(f"seed-*/{POLICY}"))] if runs else [path]
    if not policies or not policies[0].is_file():
        raise PloffError(f"no policy in {run}; was it trained to its end?")
    out = next((folder for folder in policies[0].resolve().parents if (folder / SUITE).exists()), None)
    jobs = [_evaluation_job(policy, out, episodes, seed, environment, physics) for policy in policies]
    if out is None:
        work = stages.evaluation_stage(jobs[0].arguments, pathlib.Path())
        return {jobs[0].label: Evaluation.from_json(follow(jobs[0].label, work, quiet=quiet))}
    with engine(out, serial=True, quiet=quiet) as (run_jobs, store, _):
        _raise_failures(run_jobs(jobs), len(jobs))
        return {job.label: Evaluation.from_json(store.result(job.key)) for job in jobs}


def _evaluation_job(
    policy: pathlib.Path,
    out: pathlib.Path | None,
    episodes: int,
    seed: int,
    environment: str | None,
    physics: Physics | None,
) -> Job:
    header = load_header(policy)
    known = header.get("eval_env")
    if environment is None and known is None:
        raise PloffError(f"{policy} does not say where it is evaluated; --environment names a place")
    env = dict(known or {})
    if environment is None:
        registry.refuse_code(str(policy), env["environment"], env["options"])
    if environment is not None and environment != env.get("environment"):
        has_reference = tasks.has_reference(environment)
        references = list(tasks.reference_scores(environment)) if has_reference else None
        env = {"environment": environment, "references": references}
    if physics is not None:
        env["physics"] = physics
    arguments = {
        "folder": str(policy if out is None else policy.resolve().relative_to(out)),
        "step": header.get("step"),
        "episodes": episodes,
        "seed": seed,
        "eval_env": env,
    }
    return Job(kind="evaluation", arguments=arguments, label=f"{header['method']} seed {header.get('seed', 0)}")


def absolute_name(dataset: Path) -> str:
    """A dataset's name; a file's in full, so that it is found from anywhere."""
    path = pathlib.Path(dataset)
    return str(path.resolve()) if datasets.is_place(path) else str(dataset)


def given_reading(reading: Mapping[str, Any] | None) -> dict[str, Any]:
    """Those keywords of `ploff.load` that say something."""
    return {name: value for name, value in (reading or {}).items() if value is not None and value != {}}


def dataset_name(dataset: Path | Transitions, out: pathlib.Path) -> str:
    """The name of a task: what `ploff.load` takes; transitions in memory get a file among the results."""
    if isinstance(dataset, Transitions):
        return str((out / "data" / f"{dataset.origin.name}-{dataset.fingerprint()[:8]}.npz").resolve())
    return absolute_name(dataset)


def _with_methods_for(suite: Suite, data: Transitions, quiet: bool) -> Suite:
    """The suite with the methods that stand for its own where actions are discrete."""
    columns = []
    for column in suite.columns:
        method = method_for(column.method, data).name
        if method != column.method and not quiet:
            say(f"{data.origin.name} has {data.action_space.n} discrete actions: {column.method} is {method} there")
        columns.append(dataclasses.replace(column, name=method, method=method))
    return dataclasses.replace(suite, columns=tuple(columns))


def _with_metric_from(suite: Suite, place: pathlib.Path, data: Transitions) -> Suite:
    """The suite with the metric of another folder, which must have the settings that were asked for."""
    folder = find_metric(place, data.fingerprint())
    found = load_header(folder / CHECKPOINT)["config"]
    for name, wanted in suite.metric.items():
        if found[name] != (list(wanted) if isinstance(wanted, tuple) else wanted):
            raise PloffError(
                f"the metric in {place} was learned with {name}={found[name]}, not {wanted}; choose another"
            )
    return dataclasses.replace(suite, metric_from=str(folder.resolve()))


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen or min(chosen) < 0:
        raise PloffError(f"there must be at least one seed, and none below 0; got {seeds}")
    return chosen


def _can_travel(env: EvalEnv | None) -> bool:
    """Whether another process can train: an accelerator is one, and environments are registered in a process."""
    known = env is None or registry.known_everywhere(env.environment)
    return jax.default_backend() == "cpu" and known


def _workers(runs: int) -> int:
    return min(runs, len(available_cores()))


def _runs(outcome: SuiteOutcome, out: pathlib.Path) -> list[Run]:
    plan = make_plan(outcome.suite)
    folders = {run.column: run_folder.run_folder(out, run.job.arguments) for run in plan.runs}
    return [read_run(folders[column.name]) for column in outcome.suite.columns]


def _raise_failures(failures: Sequence[Record], count: int) -> None:
    if not failures:
        return
    failed = [record for record in failures if record["kind"] == "agent"] or failures
    text = "; ".join(f"{record['label']} failed: {record['reason']}" for record in failed)
    done = f"; the other {count - len(failed)} are done" if 0 < len(failed) < count else ""
    kind = PloffError if all(record.get("mendable", True) for record in failures) else RuntimeError
    raise kind(text + done)
