"""Which policy of a run is kept: policies on the way, and the one that is judged best by the log."""

import pathlib
import shutil
from typing import Any

from ploff.agents.policy import read_policy
from ploff.experiments.run_folder import POLICY, SELECTION
from ploff.judging import Judge, JudgeConfig, JudgedLog, Judgment, LogDistance
from ploff.judging.judged_log import held_out_episodes
from ploff.judging.verdict import MAX_OUTSIDE
from ploff.neighbors import DataDistance, find_neighbors
from ploff.transitions import Transitions
from ploff.utils import files

KEPT = "policies"


def keep_policy(folder: pathlib.Path, step: int) -> None:
    """Copies a seed's policy, as it is at a step."""
    with files.atomic_write(folder / KEPT / f"{step}.eqx") as partial:
        shutil.copyfile(folder / POLICY, partial)


def kept_policies(folder: pathlib.Path) -> dict[int, pathlib.Path]:
    """The policies that `keep_policy` kept, by step."""
    found = {int(path.stem): path for path in (folder / KEPT).glob("*.eqx") if path.stem.isdigit()}
    return dict(sorted(found.items()))


def select_policy(folder: pathlib.Path, data: Transitions, hold_out: float, embedded: Any = None) -> int:
    """Judges a seed's policies, makes the best one the seed's, and notes what was said of each; returns its step.

    Args:
      folder: the seed's.
      data: the log, as it was loaded.
      hold_out: the share of episodes that was kept from training.
      embedded: the metric and its table, where the method measured distances.
    """
    judge = judge_of(data, hold_out, embedded, JudgeConfig(cloning_steps=0))
    judged = {step: judge.of(read_policy(path), f"step {step:,}") for step, path in kept_policies(folder).items()}
    best = max(judged, key=lambda step: preference(judged[step]))
    rows = [
        {
            "step": step,
            "value": judgment.value.value,
            "low": judgment.value.low,
            "high": judgment.value.high,
            "outside": judgment.support.outside,
            "verdict": judgment.verdict.answer,
        }
        for step, judgment in judged.items()
    ]
    with files.atomic_write(folder / POLICY) as partial:
        shutil.copyfile(kept_policies(folder)[best], partial)
    files.write_json(folder / SELECTION, {"step": best, "judged": rows})
    return best


def preference(judgment: Judgment) -> tuple[bool, float]:
    """What the best judgment is largest in: actions inside of the evidence first, then what the policy is worth."""
    return judgment.support.outside <= MAX_OUTSIDE, judgment.value.value


def judge_of(data: Transitions, hold_out: float, embedded: Any, config: JudgeConfig) -> Judge:
    """A judge of a run's log, in the metric that the run has, if it has one."""
    log = JudgedLog.of(data, held_out_episodes(data, hold_out))
    if embedded is None:
        return Judge(log, LogDistance.l2(data), config)
    table = find_neighbors(embedded.table, embedded.metric, embedded.data, embedded.key)
    distance = DataDistance.init(embedded.metric, embedded.data, table.rows)
    kind = "l2" if embedded.key.metric.startswith("l2-") else "learned"
    return Judge(log, LogDistance(distance, kind, embedded.key.metric), config)
