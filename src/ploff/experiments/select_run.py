"""The choice among trained policies: by judging alone, or by judging and a few trials."""

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence

import numpy as np

from ploff.agents.policy import Policy, read_policy
from ploff.environments import Physics
from ploff.environments.eval_env import EvalEnv
from ploff.environments.evaluation import evaluate
from ploff.experiments.agent_run import evaluation_seed
from ploff.experiments.judge_run import JudgedPolicy, judge_runs
from ploff.experiments.run_folder import JUDGMENT, POLICY, TRIALS
from ploff.judging import JudgeConfig
from ploff.judging.bandit import Bandit, Trial, spend
from ploff.judging.estimate import CONFIDENCE_WIDTH
from ploff.training.checkpoint import load_header
from ploff.utils import files
from ploff.utils.config import structure
from ploff.utils.errors import PloffError


@dataclasses.dataclass(frozen=True)
class Choice:
    """Judged policies, the trials that were spent on them, and the one that is thought to be best."""

    judged: list[JudgedPolicy]
    trials: list[Trial]
    means: list[float]  # what each is believed to be worth
    best: int

    @property
    def chosen(self) -> JudgedPolicy:
        """The best one."""
        return self.judged[self.best]

    def rows(self) -> list[tuple[str, ...]]:
        """One row of text per policy, the chosen one marked."""
        found = []
        for number, one in enumerate(self.judged):
            tried = [trial.value for trial in self.trials if trial.policy == number]
            value, mark = one.judgment.value, "* " if number == self.best else "  "
            interval = f"{value.low:,.1f} to {value.high:,.1f}"
            mean = f"{np.mean(tried):,.1f}" if tried else "–"
            outside = f"{one.judgment.support.outside:.0%}"
            told = (f"{value.value:,.1f}", interval, outside, str(len(tried)), mean, f"{self.means[number]:,.1f}")
            found.append((f"{mark}{one.judgment.name}", *told))
        return found


def select_among(
    runs: Sequence[pathlib.Path],
    *,
    trials: int = 0,
    out: pathlib.Path | None = None,
    dataset: str | None = None,
    environment: str | None = None,
    physics: Physics | None = None,
    seed: int = 0,
    config: JudgeConfig | None = None,
    quiet: bool = False,
) -> Choice:
    """Chooses the best of several policies.

    Args:
      runs: what `ploff train` or `ploff benchmark` made, or policies' files.
      trials: episodes to spend, in the environment; none: by the log alone.
      out: a folder for the chosen policy, its judgment and the trials.
      dataset: the log, if it is not where it was.
      environment: of the trials; by default that of the training.
      physics: of that environment.
      seed: decides the episodes.
      config: how to judge.
      quiet: say nothing.
    """
    if trials < 0:
        raise PloffError(f"--trials must not be negative, got {trials}")
    judged = judge_runs(runs, dataset=dataset, config=config, quiet=quiet)
    if len({one.judge.log.data.fingerprint() for one in judged}) > 1:
        raise PloffError("these policies were trained on different logs; choose among those of one")
    values = [one.judgment.value for one in judged]
    if not trials:
        choice = Choice(judged, [], [value.value for value in values], 0)
    else:
        policies = [read_policy(one.policy) for one in judged]
        env = _environment(judged[0].policy, environment, physics)
        noise = float(np.std(judged[0].judge.log.data.episode_returns()))
        deviations = [(value.high - value.low) / CONFIDENCE_WIDTH for value in values]
        bandit = Bandit([value.value for value in values], deviations, noise or 1.0)
        spent = spend(bandit, trials, lambda policy, number: _episode(policies[policy], env, seed, number))
        choice = Choice(judged, spent, bandit.means.tolist(), bandit.best())
    if out is not None:
        _save(choice, out)
    return choice


def _episode(policy: Policy, env: EvalEnv, seed: int, number: int) -> float:
    own = evaluation_seed(seed, number)
    outcome = evaluate(policy, env.environment, episodes=1, seed=own, physics=env.physics, options=env.options)
    return outcome.mean_return


def _environment(policy: pathlib.Path, environment: str | None, physics: Physics | None) -> EvalEnv:
    known = load_header(policy).get("eval_env")
    if environment is None and known is None:
        raise PloffError(f"{policy} does not say where it is tried; --environment names a place")
    env = structure(EvalEnv, known, "evaluation environment") if known else EvalEnv(environment=str(environment))
    if environment not in (None, env.environment):
        env = EvalEnv(environment=str(environment))
    return env if physics is None else dataclasses.replace(env, physics=physics)


def _save(choice: Choice, out: pathlib.Path) -> None:
    """Copies the chosen policy, and writes what was said and tried."""
    out.mkdir(parents=True, exist_ok=True)
    with files.atomic_write(out / POLICY) as partial:
        shutil.copyfile(choice.chosen.policy, partial)
    files.write_json(out / JUDGMENT, choice.chosen.judgment.to_json())
    if choice.trials:
        names = [one.judgment.name for one in choice.judged]
        rows = [
            {
                "trial": trial.number + 1,
                "policy": names[trial.policy],
                "return": trial.value,
                "best": names[trial.best],
                "believed": trial.best_mean,
            }
            for trial in choice.trials
        ]
        files.write_csv(out / TRIALS, rows)
