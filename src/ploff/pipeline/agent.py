"""One seed of one method: from a log to an evaluated policy, resumable at any moment.

The seed's folder holds checkpoint.eqx, history.csv, evaluations.csv, evaluation.json (the last one) and policy.eqx.
Every random draw is a function of the seed and the step, and so is every evaluation's choice of episodes: a run that
was cut off ends with the same parameters and the same evaluations as one that was not.
"""

import contextlib
import dataclasses
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ploff import agents, storage
from ploff.agents.log import Log
from ploff.errors import PloffError, PloffWarning
from ploff.evaluation import evaluate
from ploff.pipeline import stages
from ploff.pipeline.arena import Arena
from ploff.pipeline.policy import FILE, policy_of, save_policy
from ploff.pipeline.settings import AgentTraining
from ploff.pipeline.sinks import Sink, open_sink
from ploff.training import Loop, Row, refuse_difference
from ploff.transitions import RewardScale, Transitions

CHECKPOINT = "checkpoint.eqx"
WATCHED = ("mean_q", "largest_q", "q_bound", "distance", "actor_loss", "score", "mean_return")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SeedJob:
    """One seed of one method, with all that it needs; it can be sent to another process."""

    folder: pathlib.Path  # the seed's own
    method: str
    config: Any
    training: AgentTraining
    seed: int
    data: Transitions  # as it was loaded
    dataset: str  # its fingerprint
    evidence_folder: pathlib.Path  # where metric and neighbours are
    arena: Arena | None = None  # None: the policy is not tried
    sink: str | None = None  # "tensorboard" or "wandb", beside the CSV files

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.method} seed {self.seed}"

    def identity(self) -> dict[str, Any]:
        """What must not change between a run's beginning and its end."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "settings": dataclasses.asdict(self.config),
            "seed": self.seed,
            "evaluate_every": self.training.evaluate_every,
            "episodes": self.training.episodes,
            "arena": None if self.arena is None else dataclasses.asdict(self.arena),
        }


def train_seed(
    job: SeedJob, *, quiet: bool = False, report: Callable[[int, Row], None] = lambda step, row: None
) -> None:
    """Trains one seed to its end, from its checkpoint if there is one.

    Args:
      job: what to train.
      quiet: show no progress.
      report: is told each row of the history and each evaluation.
    """

    def refuse() -> None:
        raise PloffError(f"another process is training in {job.folder}; wait for it, or choose another --out")

    with storage.exclusive(job.folder / ".lock", waiting=refuse), contextlib.ExitStack() as stack:
        method = agents.method(job.method)
        rewards: RewardScale = getattr(job.config, "rewards", "unit")  # cloning has none
        log, metric = stages.build_log(method.evidence, job.evidence_folder, job.data, rewards)
        check_same(job, metric)
        init_key = jax.random.fold_in(jax.random.key(job.seed), 2**31 - 1)  # no step has this number
        loop = Loop(
            job.label,
            method.update(job.config),
            method.init(init_key, log, job.config),
            (log,),
            seed=job.seed,
            chunk=job.training.chunk,
            checkpoint=job.folder / CHECKPOINT,
            header={"identity": job.identity(), "metric": metric},
            checks_name="evaluations",
            watch=WATCHED,
        )
        sink = stack.enter_context(open_sink(job.sink, job.folder, job.label, job.identity()))
        watcher = _Watcher(job, log, loop, sink, report)
        final = loop.run(
            job.training.steps,
            check=watcher.evaluate if job.arena else None,
            check_every=job.training.evaluate_every,
            check_end=True,
            complete=watcher.complete,
            quiet=quiet,
        )
        watcher.save_policy(final, loop.step)


def check_same(job: SeedJob, metric: str | None = None) -> None:
    """Refuses a checkpoint of other data, other settings or another metric, naming the first difference."""
    checkpoint = job.folder / CHECKPOINT
    if not checkpoint.exists():
        return
    header = storage.load_header(checkpoint)
    if "identity" not in header:
        raise PloffError(f"{checkpoint} is not a checkpoint of a policy; choose another --out, or delete it")
    refuse_difference(job.folder, header["identity"], job.identity())
    if metric is not None and header["metric"] != metric:
        raise PloffError(f"{job.folder} was trained with another metric; choose another --out, or delete it")
    if header["step"] > job.training.steps:
        raise PloffError(
            f"{job.folder} has been trained for {header['step']:,} steps, more than {job.training.steps:,}; "
            "give as many or more --steps, or choose another --out"
        )


def steps_done(job: SeedJob) -> int:
    """The step that a job would go on from."""
    checkpoint = job.folder / CHECKPOINT
    return storage.load_header(checkpoint)["step"] if checkpoint.exists() else 0


def evaluation_seed(seed: int, step: int) -> int:
    """The seed of the evaluation at a step: other episodes each time, the same ones whenever it is run again."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0])


class _Watcher:
    """Sees a run's rows: adds the bound, warns once, evaluates, passes them on."""

    def __init__(self, job: SeedJob, log: Log, loop: Loop, sink: Sink, report: Callable[[int, Row], None]):
        self.job, self.log, self.sink, self.report = job, log, sink, report
        discount = getattr(job.config, "discount", None)
        self.bound = None if discount is None else (float(log.largest_reward) or 1.0) / (1.0 - discount)
        self.said = any(self._impossible(row) for row in loop.history)

    def complete(self, row: Row) -> Row:
        """A row of the history with the bound of Q, and without a distance that nobody measured."""
        row = {name: value for name, value in row.items() if name != "distance" or self.log.evidence}
        if self.bound is not None and "largest_q" in row:
            row["q_bound"] = self.bound
        impossible = self._impossible(row)
        if impossible and not self.said:
            self.said = True
            warnings.warn(
                f"{self.job.label}, before step {row['step']:,}: {impossible}; training goes on",
                PloffWarning,
                stacklevel=2,
            )
        self._pass_on(row)
        return row

    def evaluate(self, loop: Loop) -> Row:
        """Tries the policy; the row has its mean return, its score where there is one, and every episode's return."""
        arena, step = self.job.arena, loop.step
        assert arena is not None
        policy = self.save_policy(loop.state, step)
        outcome = evaluate(
            policy,
            arena.environment,
            episodes=self.job.training.episodes,
            seed=evaluation_seed(self.job.seed, step),
            physics=arena.physics,
            references=arena.references,
            options=arena.options,
        )
        storage.write_json(self.job.folder / "evaluation.json", {"step": step, **outcome.to_json()})
        row = {"mean_return": outcome.mean_return}
        if outcome.mean_score is not None:
            row["score"] = outcome.mean_score
        self._pass_on({"step": step, **row})
        return row | {f"return_{number}": float(value) for number, value in enumerate(outcome.returns)}

    def save_policy(self, state: Any, step: int) -> Any:
        """Writes the policy, and returns it."""
        job, data = self.job, self.log.data
        act = agents.method(job.method).act
        policy = policy_of(act, state, data.observation_shape, data.observation_units)
        arena = None if job.arena is None else dataclasses.asdict(job.arena)
        about = {"step": step, "seed": job.seed, "dataset": job.dataset, "arena": arena}
        save_policy(job.folder / FILE, policy, data.action_space, job.method, job.config, **about)
        return policy

    def _impossible(self, row: Row) -> str | None:
        """Why no policy can be worth what the critic says, and what helps; None where one can."""
        if self.bound is None or "largest_q" not in row:
            return None
        if row["largest_q"] > self.bound:
            return (
                f"a value of {row['largest_q']:.4g}, where {self.bound:.4g} is the most there can be: the critic "
                "overrates actions that the log lacks; a stronger pull to the data or layer_norm=true helps"
            )
        if row["mean_q"] < -self.bound:
            return (
                f"logged actions are worth {row['mean_q']:.4g} on average, where {-self.bound:.4g} is the least there "
                "can be: the method's penalty on values has outgrown the rewards; a smaller weight of it helps"
            )
        return None

    def _pass_on(self, row: Row) -> None:
        step, values = int(row["step"]), {name: value for name, value in row.items() if name != "step"}
        self.sink.write(step, values)
        self.report(step, values)
