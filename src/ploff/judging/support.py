"""Where a policy leaves its evidence: its actions' distances to the data, held against those of logged actions.

Every distance is to pairs of other episodes than the state's own, for logged actions as for the policy's.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from ploff.judging.gate import RATE, Gate, OtherEpisodes
from ploff.judging.judged_log import JudgedLog
from ploff.judging.neighbor_chain import distances_to
from ploff.neighbors import DataDistance

NUM_FARTHEST = 10
APART = 10  # steps between two of the farthest states of one episode
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclasses.dataclass(frozen=True)
class FarState:
    """A state in which the policy goes far from the evidence, and what the log did there."""

    row: int
    episode: int
    step: int
    distance: float
    policy_action: tuple[float, ...]
    logged_action: tuple[float, ...]
    reward: float  # that the logged action brought


@dataclasses.dataclass(frozen=True, eq=False)
class Support:
    """Distances of a policy's actions and of logged ones, in medians of the logged ones'."""

    outside: float  # share of the policy's actions beyond the gate's threshold
    rate: float  # of false alarms that the threshold stands for
    threshold: float  # in medians
    logged: Float[np.ndarray, "R"]
    policy: Float[np.ndarray, "R"]
    by_episode: dict[int, float]  # share outside
    farthest: tuple[FarState, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON's own types; distributions by their quantiles."""
        return {
            "outside": self.outside,
            "false_alarm_rate": self.rate,
            "threshold": self.threshold,
            "quantiles": list(QUANTILES),
            "logged": np.quantile(self.logged, QUANTILES).tolist(),
            "policy": np.quantile(self.policy, QUANTILES).tolist(),
            "outside_by_episode": {str(episode): share for episode, share in self.by_episode.items()},
            "farthest": [dataclasses.asdict(state) for state in self.farthest],
        }


def measure_support(
    log: JudgedLog, logged: DataDistance, others: OtherEpisodes, gate: Gate, actions: Float[np.ndarray, "M A"]
) -> Support:
    """Measures a policy's actions in the episodes that it is judged on."""
    here = np.flatnonzero(np.isin(others.owners, log.episodes))
    rows, owners, usual = others.rows[here], others.owners[here], others.distances[here]
    distances = distances_to(logged, actions[rows], rows, others.neighbors[here]).min(axis=1)
    outside = gate.outside(distances, RATE)
    median = float(np.median(others.distances))
    unit = median if median > 0 else 1.0
    return Support(
        outside=float(outside.mean()),
        rate=RATE,
        threshold=gate.threshold(RATE) / unit,
        logged=usual / unit,
        policy=distances / unit,
        by_episode={int(e): float(outside[owners == e].mean()) for e in np.unique(owners)},
        farthest=_farthest(log, rows, distances / unit, actions),
    )


def _farthest(log: JudgedLog, rows: np.ndarray, distances: np.ndarray, actions: np.ndarray) -> tuple[FarState, ...]:
    """The farthest states, no two of them of the same moment."""
    found: list[FarState] = []
    for place in np.argsort(-distances, kind="stable"):
        row = int(rows[place])
        episode, step = log.data.locate(row)
        if all(state.episode != episode or abs(state.step - step) >= APART for state in found):
            logged, reward = np.asarray(log.data.actions)[row], float(log.data.rewards[row])
            chosen, taken = tuple(map(float, actions[row])), tuple(map(float, logged))
            found.append(FarState(row, episode, step, float(distances[place]), chosen, taken, reward))
        if len(found) == NUM_FARTHEST:
            break
    return tuple(found)
