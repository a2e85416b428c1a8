"""Judging: what policies of one log are worth, how sure that is, and where they leave the evidence.

    judge = Judge(JudgedLog.of(data), LogDistance.l2(data))
    judgment = judge.of(policy)
    judgment.value, judgment.verdict

What does not depend on the policy (the gate, what the estimator says of the log itself) is done once for a log.
"""

import dataclasses
import functools
import typing
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from ploff.judging import importance
from ploff.judging.cloning import clone
from ploff.judging.estimate import Estimate
from ploff.judging.features import embedded_pairs, fqe_data, plain_pairs
from ploff.judging.fqe import FQEConfig, fit_values, returns_of
from ploff.judging.gate import Gate, OtherEpisodes, calibrate_gate
from ploff.judging.judged_log import JudgedLog, PolicyFn
from ploff.judging.log_distance import LogDistance
from ploff.judging.neighbor_chain import (
    FAR,
    LONG_REACH,
    NUM_REPLICATES,
    REACH,
    SHORT_REACH,
    chain_returns,
    distances_to,
)
from ploff.judging.support import Support, measure_support
from ploff.judging.verdict import MAX_OUTSIDE, Verdict, decide
from ploff.transitions import Transitions
from ploff.utils.config import check_choices, check_within

Estimator = Literal["fqe", "fqe-metric", "neighbors"]
ESTIMATORS: tuple[Estimator, ...] = typing.get_args(Estimator)
PROPENSITIES = ("action_log_probs", "log_probs")  # names in the log's infos: log β(a|s)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """How policies are judged."""

    estimator: Estimator = "neighbors"  # that the verdict goes by
    others: tuple[Estimator, ...] = ()  # that are told beside it
    fqe: FQEConfig = dataclasses.field(default_factory=FQEConfig)
    max_outside: float = MAX_OUTSIDE  # share of actions outside of the evidence beyond which "better" is not said
    cloning_steps: int = 3_000  # of behavioral cloning, for comparison; 0: none
    seed: int = 0

    def __post_init__(self):
        check_choices(self)
        check_within(self, "[0, 1]", "max_outside")


@dataclasses.dataclass(frozen=True)
class Judgment:
    """What is said of one policy."""

    name: str
    value: Estimate  # mean return per episode, in the log's own reward
    advantage: Estimate  # over the log, seen in the same way: what the verdict goes by
    logged: Estimate  # worth of the log's own episodes
    cloning: Estimate | None
    estimates: dict[str, Estimate]  # by estimator
    support: Support
    verdict: Verdict
    kept: bool  # whether the episodes judged on were kept from training
    episodes: int  # judged on
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON's own types."""
        return {
            "policy": self.name,
            "value": self.value.to_json(),
            "advantage": self.advantage.to_json(),
            "log": self.logged.to_json(),
            "cloning": None if self.cloning is None else self.cloning.to_json(),
            "estimates": {name: estimate.to_json() for name, estimate in self.estimates.items()},
            "support": self.support.to_json(),
            "verdict": self.verdict.answer,
            "reasons": list(self.verdict.reasons),
            "episodes": self.episodes,
            "kept_from_training": self.kept,
            "notes": list(self.notes),
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Replicates:
    """What an estimator's replicates say, and the ends of what it holds possible."""

    values: Float[np.ndarray, "B"]  # mean returns
    start_error: float  # standard error over first states
    low: float  # if whatever is unknown is bad
    high: float  # if it is as good as what is nearest
    value: float | None = None  # over all episodes; by default the mean of the replicates

    def estimate(self, offset: float) -> Estimate:
        """The estimate, moved by an offset that is known from the log, and widened by it."""
        around = Estimate.of_replicates(self.values, float(np.hypot(offset, self.start_error)))
        value = float(self.values.mean()) if self.value is None else self.value
        low, high = min(self.low, value) - value, max(self.high, value) - value
        half = (around.high - around.low) / 2
        return Estimate(value + offset, value + offset + low - half, value + offset + high + half)


def _start_error(returns: Float[np.ndarray, "B S"]) -> float:
    return float(returns.mean(axis=0).std() / np.sqrt(returns.shape[1]))


class Judge:
    """Judges policies of one log."""

    def __init__(self, log: JudgedLog, distance: LogDistance, config: JudgeConfig | None = None):
        """Calibrates the gate; `distance` is to the whole log."""
        self.log, self.distance, self.config = log, distance, config or JudgeConfig()
        self.logged_return = log.logged_return(self.config.seed)
        self.gate, self.others = self._calibrated()

    def of(self, policy: PolicyFn, name: str = "the policy") -> Judgment:
        """Judges a policy: a function from observations in the log's units to actions."""
        actions = self.log.actions_of(policy, name)
        named = dict.fromkeys((self.config.estimator, *self.config.others))
        estimates: dict[str, Estimate] = {which: self.estimate(actions, which) for which in named}
        value, notes = estimates[self.config.estimator], self._notes()
        advantage = self.advantage(actions, value)
        sampled, note = self._importance(actions)
        if sampled is not None:
            estimates["importance"] = sampled
        support = measure_support(self.log, self.distance.logged, self.others, self.gate, actions)
        verdict = decide(advantage, self.logged_return.value, support.outside, max_outside=self.config.max_outside)
        return Judgment(
            name, value, advantage, self.logged_return, self.cloning, estimates, support, verdict,
            self.log.kept, len(self.log.episodes), (*notes, *note),
        )  # fmt: skip

    def estimate(self, actions: Float[np.ndarray, "M A"], which: Estimator) -> Estimate:
        """What one estimator says of a policy, by its actions in every state of the log.

        The estimator's error on the log itself, whose return is known, is taken off, and adds to the interval.
        """
        found = self.replicates(actions, which)
        offset = self.logged_return.value - self.of_log(which)
        return found.estimate(offset)

    def replicates(self, actions: Float[np.ndarray, "M A"], which: Estimator) -> "Replicates":
        """What each network, or draw of episodes, gives."""
        if which != "neighbors":
            returns = self._fqe_returns(actions, which)
            mean = float(returns.mean())
            return Replicates(returns.mean(axis=1), _start_error(returns), mean, mean)
        log, logged = self.log, self.distance.logged
        near = np.asarray(logged.neighbors)
        distances = distances_to(logged, actions, np.arange(log.data.num_states), near)
        chain = functools.partial(chain_returns, log, distances, near, bandwidth=self.distance.median_nn_distance)
        returns = chain(reach=REACH * self._unit, replicates=NUM_REPLICATES, seed=self.config.seed)
        short, endless = (chain(reach=reach, replicates=1) for reach in (SHORT_REACH * self._unit, np.inf))
        return Replicates(
            returns.mean(axis=1),
            _start_error(returns),
            float(short.mean()),
            float(endless.mean()),
            float(returns[0].mean()),
        )

    def advantage(self, actions: Float[np.ndarray, "M A"], value: Estimate) -> Estimate:
        """What a policy is worth beyond the log, when both are seen in the same way.

        Stitched episodes go astray, and so do the log's own if no transition may testify for itself. The difference
        of the two is taken draw by draw of the episodes. Fitted Q evaluation is corrected by the log already.
        """
        if self.config.estimator != "neighbors":
            logged = self.logged_return.value
            return Estimate(value.value - logged, value.low - logged, value.high - logged)
        return Estimate.of_replicates(self._without_own(actions) - self._log_without_own)

    @functools.cached_property
    def _log_without_own(self) -> Float[np.ndarray, "B"]:
        return self._without_own(self._logged_actions())

    def _without_own(self, actions: np.ndarray) -> Float[np.ndarray, "B"]:
        """Mean returns of stitched episodes in which no transition stands for its own state, by draw."""
        near, rows = np.asarray(self.distance.logged.neighbors), np.arange(self.log.data.num_states)
        distances = distances_to(self.distance.logged, actions, rows, near)
        distances = np.where(near == rows[:, None], FAR, distances)
        returns = chain_returns(
            self.log, distances, near, bandwidth=self.distance.median_nn_distance,
            reach=LONG_REACH * self._unit, replicates=NUM_REPLICATES, seed=self.config.seed,
        )  # fmt: skip
        return returns.mean(axis=1)

    @functools.cached_property
    def _unit(self) -> float:
        """The median distance of logged actions to other episodes."""
        return float(np.median(self.others.distances)) or 1.0

    def _logged_actions(self) -> Float[np.ndarray, "M A"]:
        """The log's own actions, 0 in states in which none was taken."""
        acted = np.asarray(self.log.data.actions, np.float32)
        actions = np.zeros((self.log.data.num_states, acted.shape[1]), np.float32)
        actions[: len(acted)] = acted
        return actions

    @functools.cached_property
    def cloning(self) -> Estimate | None:
        """What the estimator says of behavioral cloning."""
        if not self.config.cloning_steps:
            return None
        policy = clone(self.log, self.config.cloning_steps, self.config.seed)
        return self.estimate(self.log.actions_of(policy, "behavioral cloning"), self.config.estimator)

    def _fqe_returns(self, actions: np.ndarray, which: Estimator, *, logged: bool = False) -> Float[np.ndarray, "B S"]:
        pairs = plain_pairs if which == "fqe" else functools.partial(embedded_pairs, logged=self.distance.logged)
        data = fqe_data(self.log, actions, pairs, only_acted=logged)
        return returns_of(fit_values(data, self.config.fqe), self.config.fqe.discount, self.log.horizon)

    @functools.cache  # noqa: B019 - a judge lives as long as its log
    def of_log(self, which: Estimator) -> float:
        """What an estimator says of the log's own actions; a chain that follows them is the log."""
        if which == "neighbors":
            return self.logged_return.value
        return float(self._fqe_returns(self._logged_actions(), which, logged=True).mean())

    def _calibrated(self) -> tuple[Gate, OtherEpisodes]:
        distance = self.distance
        return calibrate_gate(
            distance.logged, self.log.data, kind=distance.kind, metric=distance.fingerprint, seed=self.config.seed
        )

    def _importance(self, actions: np.ndarray) -> tuple[Estimate | None, tuple[str, ...]]:
        """Importance sampling, where the log holds probabilities."""
        data = self.log.data
        name = next((name for name in PROPENSITIES if name in data.infos), None)
        if name is None:
            return None, ()
        logged = np.asarray(data.infos[name], np.float64).reshape(-1)
        chosen = importance.smoothed_log_density(np.asarray(data.actions), actions[: len(data)], data.action_space.unit)
        return importance.estimate(np.asarray(data.rewards), chosen - logged, data, self.config.seed)

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if not self.log.kept:
            notes.append("no episodes were kept from training (`ploff train --hold-out 0.1`): judged on all of them")
        if len(self.log.episodes) < 5:
            notes.append(f"{len(self.log.episodes)} episode(s) are few to judge on: intervals are wide, or too narrow")
        return tuple(notes)


def judge(
    policy: PolicyFn | Sequence[PolicyFn],
    data: Transitions,
    *,
    distance: LogDistance | None = None,
    held_out: Sequence[int] = (),
    **settings: Any,
) -> Any:
    """Judges a policy by a log alone.

    Args:
      policy: from observations [B, …] in the log's units to actions [B, A]; or several.
      data: the log, as loaded.
      distance: `LogDistance.of` a learned metric; plain L2 by default.
      held_out: numbers of the episodes that the policy was not trained on; all by default.
      **settings: fields of `JudgeConfig`.

    Returns:
      A `Judgment`, or one per policy.
    """
    made = Judge(JudgedLog.of(data, held_out), distance or LogDistance.l2(data), JudgeConfig(**settings))
    if isinstance(policy, Sequence):
        return [made.of(each, f"policy {number}") for number, each in enumerate(policy)]
    return made.of(policy)
