"""One seed of one method: from a log to an evaluated policy, resumable at any moment.

Every random draw is a function of the seed and the step, and so is every evaluation's choice of episodes: a run that
was cut off ends with the same parameters and the same evaluations as one that was not.
"""

import contextlib
import dataclasses
import os
import pathlib
import warnings
from collections.abc import Generator
from typing import Any

import jax
import numpy as np

from ploff.agents import get_method
from ploff.agents.base import method_for
from ploff.agents.dataset import DistanceStats, OfflineDataset
from ploff.agents.policy import Policy, save_policy
from ploff.environments.eval_env import EvalEnv
from ploff.environments.evaluation import evaluate
from ploff.experiments.config import AgentTraining
from ploff.experiments.run_folder import CHECKPOINT, CONFIG, POLICY, SeedResult, selected_step, versions
from ploff.experiments.selection import keep_policy, select_policy
from ploff.judging.judged_log import held_out_episodes
from ploff.legal_actions import legal_mask
from ploff.neighbors import DataDistance, load_table
from ploff.training.checkpoint import load_header, refuse_difference
from ploff.training.loggers import Logger, open_logger
from ploff.training.loop import Row, TrainingRun
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.config import structure, to_plain
from ploff.utils.errors import PloffError, PloffWarning
from ploff.utils.progress import Progress

WATCHED = ("score", "mean_return", "mean_q", "max_q", "q_bound", "data_distance", "actor_loss")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentJob:
    """One seed of one method, with all that it needs."""

    folder: pathlib.Path  # the seed's own
    method: str
    settings: dict[str, Any]
    training: dict[str, Any]
    seed: int
    data: Transitions  # in the coordinates that the agent sees
    dataset: str  # its fingerprint
    embedded: Any = None  # `stages.EmbeddedLog`, where the method measures distances
    eval_env: EvalEnv | None = None  # None: the policy is not evaluated
    logger: str | None = None

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.method} seed {self.seed}"

    def identity(self) -> dict[str, Any]:
        """What must not change between a run's beginning and its end."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "settings": self.settings,
            "seed": self.seed,
            "evaluate_every": self.training["evaluate_every"],
            "episodes": self.training["episodes"],
            **{name: self.training[name] for name in ("hold_out", "select") if name in self.training},
            "eval_env": None if self.eval_env is None else to_plain(self.eval_env),
            "coordinates": files.fingerprint(self.data.observation_normalizer),
            "metric": "none" if self.embedded is None else self.embedded.key.metric,
        }


def train_agent(job: AgentJob) -> Generator[Progress, None, SeedResult]:
    """Trains one seed to its end, from its checkpoint if there is one."""

    def refuse() -> None:
        raise PloffError(f"another process is training in {job.folder}; wait for it, or choose another --out")

    method, training = method_for(job.method, job.data), structure(AgentTraining, job.training, "training")
    if method.name != job.method:
        raise PloffError(f"{job.data.origin.name} has other actions than {job.method} takes; name {method.name}")
    config = method.config(**job.settings)
    with files.locked(job.folder / ".lock", when_taken=refuse), contextlib.ExitStack() as stack:
        _check_same_run(job, training)
        dataset = build_dataset(job, getattr(config, "reward_scale", "unit"))  # cloning has no rewards
        init_key = jax.random.fold_in(jax.random.key(job.seed), 2**31 - 1)  # no step has this number
        run = TrainingRun(
            job.label,
            method.init(init_key, dataset, config),
            checkpoint=job.folder / CHECKPOINT,
            header={"identity": job.identity()},
        )
        logger = stack.enter_context(open_logger(job.logger, job.folder, job.label, job.identity()))
        watcher = _Watcher(job, config, dataset, run, logger)
        stack.enter_context(run.saved_when_stopped())
        if run.step > 0:
            watcher.keep_if_due(training)
        watcher.evaluate_if_due(training)  # it may have been cut off between a step and its evaluation
        updates = run.updates(
            method.update_fn(config),
            (dataset,),
            steps=training.steps,
            seed=job.seed,
            scan_length=training.scan_length,
            evaluate_every=training.evaluate_every,
        )
        yield Progress(run.step, training.steps)
        for row in updates:
            watcher.complete(row)
            yield Progress(run.step, training.steps, watcher.watched(row))
            watcher.keep_if_due(training)
            watcher.evaluate_if_due(training)
        watcher.save_policy()
        if training.select == "judge":
            select_policy(job.folder, job.data, training.hold_out, job.embedded)
        run.save(finished=True)
    return SeedResult(job.seed, run.step, run.history, run.evaluations, selected=selected_step(job.folder))


def build_dataset(job: AgentJob, reward_scale: Any) -> OfflineDataset:
    """The log as an agent learns from it, with distances where its method asks for them."""
    device = job.data.with_scaled_rewards(reward_scale).to_device()
    legal = legal_mask(job.data)  # what is on the device has no infos
    kept = held_out_episodes(job.data, job.training.get("hold_out", 0.0))
    if job.embedded is None:
        return OfflineDataset.of(device, legal=legal).without_episodes(kept)
    table = load_table(job.embedded.table, job.embedded.key)
    normalizer = job.embedded.data.to_device().observation_normalizer
    shared = dataclasses.replace(device, observation_normalizer=normalizer)
    distance = DataDistance.init(job.embedded.metric, shared, np.asarray(table.rows))
    return OfflineDataset.of(device, DistanceStats.of(distance), legal).without_episodes(kept)


def write_config(job: AgentJob, arguments: dict[str, Any], note: dict[str, Any], **places: pathlib.Path | None) -> None:
    """Writes what a run is into its folder, with the places of what it builds on."""
    folder, env = job.folder.parent, job.eval_env
    content = {
        "dataset": arguments["task"],
        "reading": arguments["reading"],
        "fingerprint": job.dataset,
        "data": {name: note[name] for name in ("name", "transitions", "episodes", "mean_return")},
        "method": job.method,
        "distance": get_method(job.method).distance,
        "settings": job.settings,
        "training": job.training,
        **{name: None if place is None else os.path.relpath(place, folder) for name, place in places.items()},
        "environment": None if env is None else env.environment,
        "physics": None if env is None else env.physics,
        "references": None if env is None else env.references,
        "versions": versions(),
    }
    files.write_record(folder / CONFIG, content)


def evaluation_seed(seed: int, step: int) -> int:
    """The seed of the evaluation at a step: other episodes each time, the same ones whenever it is run again."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0])


def _check_same_run(job: AgentJob, training: AgentTraining) -> None:
    """Refuses a checkpoint of other data, other settings or another metric, naming the first difference."""
    checkpoint = job.folder / CHECKPOINT
    if not checkpoint.exists():
        return
    header = load_header(checkpoint)
    if "identity" not in header:
        raise PloffError(f"{checkpoint} is not a checkpoint of a policy; choose another --out, or delete it")
    refuse_difference(job.folder, header["identity"], job.identity())
    if header["step"] > training.steps:
        raise PloffError(
            f"{job.folder} has been trained for {header['step']:,} steps, more than {training.steps:,}; "
            "give as many or more --steps, or choose another --out"
        )


class _Watcher:
    """Sees a run's rows: adds the bound of Q, warns once, evaluates, logs."""

    def __init__(self, job: AgentJob, config: Any, dataset: OfflineDataset, run: TrainingRun[Any], logger: Logger):
        self.job, self.config, self.dataset, self.run, self.logger = job, config, dataset, run, logger
        discount = getattr(config, "discount", None)
        self.bound = None if discount is None else (float(dataset.max_abs_reward) or 1.0) / (1.0 - discount)
        self.has_warned = any(self._impossible(row) for row in run.history)

    def complete(self, row: Row) -> None:
        """Adds the bound of Q to a row of the history, says once where a value is beyond it, and logs the row."""
        if self.bound is not None and "max_q" in row:
            row["q_bound"] = self.bound
        impossible = self._impossible(row)
        if impossible and not self.has_warned:
            self.has_warned = True
            warnings.warn(
                f"{self.job.label}, before step {row['step']:,}: {impossible}; training goes on",
                PloffWarning,
                stacklevel=2,
            )
        self._log(row)

    def evaluate_if_due(self, training: AgentTraining) -> None:
        """Evaluates the policy where it is time to, and appends a row to the run's evaluations."""
        run, env = self.run, self.job.eval_env
        if env is None or not run.evaluation_is_due(training.evaluate_every, last=training.steps):
            return
        outcome = evaluate(
            self.save_policy(),
            env.environment,
            episodes=training.episodes,
            seed=evaluation_seed(self.job.seed, run.step),
            physics=env.physics,
            references=env.references,
            options=env.options,
        )
        files.write_record(self.job.folder / "evaluation.json", {"step": run.step, **outcome.to_json()})
        row = {"step": run.step, "mean_return": outcome.mean_return}
        if outcome.mean_score is not None:
            row["score"] = outcome.mean_score
        self._log(row)
        returns = outcome.returns
        row |= {"min_return": float(returns.min()), "max_return": float(returns.max())}
        run.evaluations.append(row | {f"return_{i}": float(value) for i, value in enumerate(returns)})

    def keep_if_due(self, training: AgentTraining) -> None:
        """Keeps the policy where one is to be chosen from several in the end."""
        run = self.run
        if training.select == "judge" and (run.step % training.evaluate_every == 0 or run.step == training.steps):
            self.save_policy()
            keep_policy(self.job.folder, run.step)

    def save_policy(self) -> Policy:
        """Writes the policy, and returns it."""
        job, run = self.job, self.run
        policy = Policy.of(get_method(job.method), run.state, self.dataset.data)
        env = None if job.eval_env is None else to_plain(job.eval_env)
        about = {"step": run.step, "seed": job.seed, "dataset": job.dataset, "eval_env": env}
        save_policy(job.folder / POLICY, policy, job.method, self.config, **about)
        return policy

    def watched(self, row: Row) -> Row:
        """The numbers to show beside the progress."""
        seen = {**row, **(self.run.evaluations[-1] if self.run.evaluations else {})}
        return {name: seen[name] for name in WATCHED if name in seen}

    def _impossible(self, row: Row) -> str | None:
        """Why no policy can be worth what the critic says, and what helps; None where one can."""
        if self.bound is None or "max_q" not in row:
            return None
        if row["max_q"] > self.bound:
            return (
                f"a value of {row['max_q']:.4g}, where {self.bound:.4g} is the most there can be: the critic "
                "overrates actions that the log lacks; a stronger pull to the data or layer_norm=true helps"
            )
        if row["mean_q"] < -self.bound:
            return (
                f"logged actions are worth {row['mean_q']:.4g} on average, where {-self.bound:.4g} is the least there "
                "can be: the method's penalty on values has outgrown the rewards; a smaller weight of it helps"
            )
        return None

    def _log(self, row: Row) -> None:
        values = {name: value for name, value in row.items() if name != "step"}
        self.logger.write(int(row["step"]), values)
