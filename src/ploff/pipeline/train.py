"""From a log to evaluated policies: metric, neighbours, agent, evaluation, each only where it is needed."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ploff import agents, datasets, environments, storage
from ploff.errors import PloffError
from ploff.pipeline import stages
from ploff.pipeline.agent import SeedJob, check_same
from ploff.pipeline.arena import Arena, find_arena
from ploff.pipeline.pool import run_jobs
from ploff.pipeline.runs import (
    CONFIG,
    Run,
    findable,
    given,
    load_run,
    note_metric,
    read_config,
    versions,
    write_scores,
)
from ploff.pipeline.settings import (
    METRIC,
    AgentTraining,
    MetricPlan,
    Preset,
    agent_training,
    by_owner,
    method_config,
    metric_plan,
)
from ploff.pipeline.sinks import check_sink
from ploff.training import refuse_difference
from ploff.transitions import Transitions

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
    environment: str | None = None,
    physics: environments.Physics | None = None,
    evaluate_every: int | None = None,
    episodes: int | None = None,
    log: str | None = None,
    reading: Mapping[str, Any] | None = None,
    fingerprint: str | None = None,
    quiet: bool = False,
) -> Run:
    """Trains a method on a log. Called again with the same `out`, it goes on where it stopped.

    Args:
      dataset: what `ploff.load` takes, or transitions as loaded.
      method: a name of `ploff.agents.METHODS`.
      out: the run folder. A metric in it that was learned from this dataset is used.
      steps: updates of the policy.
      seeds: how many, from 0; or which.
      preset: "default", "paper" (as printed and as long), or "quick" (a first look).
      settings: of the method by name, of the metric as metric.NAME; text is read as the setting's type.
      metric: another run folder, whose metric and neighbours are shared; they are made there if it has none.
      metric_steps: of learning the metric, at most; by default until it settles.
      environment: where the policy is tried; by default where the log comes from. "none": it is not.
      physics: of that environment; by default the log's.
      evaluate_every: steps between evaluations.
      episodes: of an evaluation.
      log: also write to "tensorboard" or "wandb".
      reading: keywords of `ploff.load` for a file that leaves something open.
      fingerprint: of the log, `Transitions.fingerprint()`, if it must be a certain one.
      quiet: show no progress.
    """
    folder = pathlib.Path(out)
    request = _Request.of(
        dataset, [method], {method: folder}, pathlib.Path(metric) if metric is not None else folder,
        seeds=seeds, preset=preset, settings=settings, environment=environment, physics=physics,
        metric_steps=metric_steps, steps=steps, evaluate_every=evaluate_every, episodes=episodes, log=log,
        reading=reading, fingerprint=fingerprint, quiet=quiet,
    )  # fmt: skip
    return _run(request)[0]


def compare(dataset: Path | Transitions, methods: Sequence[str], *, out: Path, **options: Any) -> list[Run]:
    """Trains several methods on a log, each in a run folder of its own inside `out`; they share the metric there.

    The other arguments are those of `train`. A setting is for all methods, or for one as METHOD.NAME.
    """
    folders = {method: pathlib.Path(out) / method for method in methods}
    metric = options.pop("metric", None)
    shared = pathlib.Path(metric if metric is not None else out)
    return _run(_Request.of(dataset, methods, folders, shared, **options))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Request:
    """Everything that was asked for, checked before any work."""

    data: Transitions
    name: str | None  # of the dataset, if it has one that `ploff.load` takes
    fingerprint: str
    folders: dict[str, pathlib.Path]  # by method
    shared: pathlib.Path  # where metric and neighbours are
    configs: dict[str, Any]  # by method
    training: AgentTraining
    plan: MetricPlan
    preset: Preset
    seeds: tuple[int, ...]
    arena: Arena | None
    sink: str | None
    reading: dict[str, Any]
    quiet: bool

    @classmethod
    def of(
        cls,
        dataset: Path | Transitions,
        methods: Sequence[str],
        folders: dict[str, pathlib.Path],
        shared: pathlib.Path,
        *,
        seeds: int | Sequence[int] = 1,
        preset: Preset = "default",
        settings: Mapping[str, Any] | None = None,
        environment: str | None = None,
        physics: environments.Physics | None = None,
        metric_steps: int | None = None,
        log: str | None = None,
        reading: Mapping[str, Any] | None = None,
        fingerprint: str | None = None,
        quiet: bool = False,
        **lengths: int | None,
    ) -> "_Request":
        known = {name: agents.method(name) for name in methods}
        owned = by_owner(settings or {}, methods)
        check_sink(log)
        configs = {name: method_config(known[name], preset, owned[name]) for name in methods}
        training, plan = agent_training(preset, **lengths), metric_plan(preset, metric_steps, owned[METRIC])
        data = dataset if isinstance(dataset, Transitions) else datasets.load(dataset, **reading or {})
        if data.action_space.kind != "box":
            raise PloffError(
                f"{data.origin.name} has {data.action_space.n} discrete actions; policies are learned for boxes"
            )
        found = data.fingerprint()
        if fingerprint not in (None, found):
            raise PloffError(f"{data.origin.name} is not the dataset that was meant: its content has changed")
        return cls(
            data=data,
            name=None if isinstance(dataset, Transitions) else findable(dataset),
            fingerprint=found,
            folders=folders,
            shared=shared,
            configs=configs,
            training=training,
            plan=plan,
            preset=preset,
            seeds=_seeds(seeds),
            arena=find_arena(data, environment, physics, quiet=quiet),
            sink=log,
            reading=given(reading),
            quiet=quiet,
        )

    def jobs(self) -> list[SeedJob]:
        """Every seed of every method, those that take longest first: what is left over then is short."""
        by_cost = sorted(self.folders.items(), key=lambda item: agents.method(item[0]).evidence == "none")
        return [
            SeedJob(
                folder=folder / f"seed-{seed}",
                method=method,
                config=self.configs[method],
                training=self.training,
                seed=seed,
                data=dataclasses.replace(self.data, infos={}),
                dataset=self.fingerprint,
                evidence_folder=self.shared,
                arena=self.arena,
                sink=self.sink,
            )
            for method, folder in by_cost
            for seed in self.seeds
        ]

    def config(self, method: str) -> dict[str, Any]:
        """What config.json says of a method's run."""
        folder, evidence = self.folders[method], agents.method(method).evidence
        metric: dict[str, Any] = {"evidence": evidence, "folder": os.path.relpath(self.shared, folder)}
        return {
            "dataset": self.name,
            "reading": self.reading,
            "fingerprint": self.fingerprint,
            "data": {
                "name": self.data.origin.name,
                "transitions": len(self.data),
                "episodes": len(self.data.episode_lengths()),
                "mean_return": float(self.data.episode_returns().mean()),
            },
            "method": method,
            "preset": self.preset,
            "settings": dataclasses.asdict(self.configs[method]),
            "training": dataclasses.asdict(self.training),
            "seeds": list(self.seeds),
            "metric": metric,
            "environment": None if self.arena is None else self.arena.environment,
            "physics": None if self.arena is None else self.arena.physics,
            "references": None if self.arena is None else self.arena.references,
            "versions": versions(),
        }


def _run(request: _Request) -> list[Run]:
    jobs = request.jobs()
    configs = {folder: _claimed(request, method) for method, folder in request.folders.items()}
    for job in jobs:
        check_same(job)
    for folder, config in configs.items():
        storage.write_json(folder / CONFIG, config)
    kinds: list[agents.EvidenceKind] = [agents.method(method).evidence for method in request.folders]
    try:
        for kind in dict.fromkeys(kinds):
            stages.prepare(kind, request.shared, request.data, request.plan, quiet=request.quiet)
        for method, folder in request.folders.items():
            if agents.method(method).evidence == "learned":
                note_metric(folder, stages.metric_settings(request.shared))
        failures = run_jobs(jobs, quiet=request.quiet)
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            raise
        # Between the loops that say where they were, as while neighbours are looked for.
        raise KeyboardInterrupt("interrupted; run the same command again to go on") from None
    runs = [load_run(folder) for folder in request.folders.values()]
    for run in runs:
        write_scores(run)
    if failures:
        for failure in failures:
            if failure.trace:
                storage.write_json(failure.job.folder / "error.json", failure.trace.splitlines())
        text = "; ".join(map(str, failures))
        done = f"; the other {len(jobs) - len(failures)} are done" if len(jobs) > len(failures) else ""
        kind = PloffError if all(failure.mendable for failure in failures) else RuntimeError
        raise kind(text + done)
    return runs


def _claimed(request: _Request, method: str) -> dict[str, Any]:
    """What a run's config.json is to say; refuses a folder that another run has."""
    folder, wanted = request.folders[method], request.config(method)
    found = read_config(folder)
    if found is not None:
        same = ("fingerprint", "method", "settings", "environment", "physics")
        old = {("dataset" if name == "fingerprint" else name): found.get(name) for name in same}
        refuse_difference(folder, old, {("dataset" if n == "fingerprint" else n): wanted[n] for n in same})
        place = found["metric"]["folder"]
        if wanted["metric"]["evidence"] != "none" and place != wanted["metric"]["folder"]:
            raise PloffError(
                f"{folder} was trained with the metric of {place}; choose another --out, or delete it"
            )
        wanted["seeds"] = sorted({*found["seeds"], *wanted["seeds"]})
        wanted["metric"] = {**found["metric"], **wanted["metric"]}
    return wanted


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen or min(chosen) < 0:
        raise PloffError(f"there must be at least one seed, and none below 0; got {seeds}")
    return chosen
