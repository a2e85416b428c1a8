"""Judgments of trained policies, by run: the log and the episodes that were kept from it are found with the run."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from ploff import datasets
from ploff.agents.policy import read_policy
from ploff.experiments.logs import EmbeddedLog, embedded_log
from ploff.experiments.run_folder import GATE, JUDGMENT, POLICY, find_metric, find_run_folders, read_config, seed_of
from ploff.experiments.selection import judge_of, preference
from ploff.judging import Judge, JudgeConfig, Judgment
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.errors import PloffError
from ploff.utils.progress import say


@dataclasses.dataclass(frozen=True)
class JudgedPolicy:
    """A trained policy, and what is said of it."""

    policy: pathlib.Path
    run: pathlib.Path | None  # its run's folder
    judgment: Judgment
    judge: Judge


@dataclasses.dataclass(frozen=True)
class _Found:
    """A policy's file, and what its run says of its log."""

    policy: pathlib.Path
    run: pathlib.Path | None
    name: str
    dataset: str
    reading: tuple[tuple[str, Any], ...]
    fingerprint: str | None
    hold_out: float
    metric: pathlib.Path | None
    l2: bool


def judge_runs(
    runs: Sequence[pathlib.Path],
    *,
    dataset: str | None = None,
    config: JudgeConfig | None = None,
    save: bool = True,
    quiet: bool = False,
) -> list[JudgedPolicy]:
    """Judges every policy of runs, best first.

    Args:
      runs: what `ploff train` or `ploff benchmark` made, or policies' files.
      dataset: the log, if it is not where it was; needed for files that stand by themselves.
      config: how to judge.
      save: write each judgment, and the gate, beside the policy.
      quiet: say nothing.
    """
    found = [each for path in runs for each in _policies(path, dataset)]
    load = functools.lru_cache(maxsize=1)(_load)
    judges: dict[Any, Judge] = {}
    judged = []
    for each in found:
        key = (each.dataset, each.reading, each.hold_out, each.metric, each.l2)
        if key not in judges:
            if not quiet:
                say(f"reading {each.dataset}, and calibrating its gate")
            judges[key] = _judge(each, load(each.dataset, each.reading), config or JudgeConfig())
        if not quiet:
            say(f"judging {each.name}")
        judgment = judges[key].of(read_policy(each.policy), each.name)
        judged.append(JudgedPolicy(each.policy, each.run, judgment, judges[key]))
    if save:
        for one in judged:
            if one.run is not None:
                files.write_json(one.policy.with_name(JUDGMENT), one.judgment.to_json())
                one.judge.gate.save(one.policy.with_name(GATE))
    return sorted(judged, key=lambda one: preference(one.judgment), reverse=True)


def _policies(path: pathlib.Path, dataset: str | None) -> list[_Found]:
    """The policies at a path, with what their runs say of them."""
    if path.is_file():
        run = next((folder for folder in path.resolve().parents[:3] if (folder / "config.json").exists()), None)
        return [_found(path, run, dataset)]
    policies = [(policy, run) for run in find_run_folders(path) for policy in sorted(run.glob(f"seed-*/{POLICY}"))]
    if not policies:
        raise PloffError(f"no policy in {path}; was it trained to its end?")
    return [_found(policy, run, dataset) for policy, run in policies]


def _found(policy: pathlib.Path, run: pathlib.Path | None, dataset: str | None) -> _Found:
    if run is None:
        if dataset is None:
            raise PloffError(f"{policy} does not say which log it was learned from; add --dataset NAME")
        return _Found(policy, None, policy.stem, dataset, (), None, 0.0, None, False)
    config = read_config(run)
    seed = next((seed_of(folder) for folder in policy.resolve().parents if folder.name.startswith("seed-")), 0)
    metric = config["metric"] if config["distance"] == "learned" else None
    return _Found(
        policy=policy,
        run=run,
        name=f"{config['method']} seed {seed}",
        dataset=dataset or config["dataset"],
        reading=tuple(sorted((k, _hashable(v)) for k, v in config["reading"].items())),
        fingerprint=config["fingerprint"],
        hold_out=config["training"].get("hold_out", 0.0),
        metric=None if metric is None else find_metric(run / metric),
        l2=config["distance"] == "l2",
    )


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return ("dict", *((k, _hashable(v)) for k, v in value.items()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and value[:1] == ("dict",):
        return {k: _plain(v) for k, v in value[1:]}
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def _load(dataset: str, reading: tuple[tuple[str, Any], ...]) -> Transitions:
    return datasets.load(dataset, **{k: _plain(v) for k, v in reading})


def _judge(found: _Found, data: Transitions, config: JudgeConfig) -> Judge:
    if found.fingerprint not in (None, data.fingerprint()):
        raise PloffError(f"{found.policy} was trained on another log than {found.dataset} is now; name it by --dataset")
    embedded: EmbeddedLog | None = None
    if found.metric is not None:
        embedded = embedded_log("learned", found.metric, data)
    return judge_of(data, found.hold_out, embedded, config)
