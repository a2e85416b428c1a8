r"""Importance sampling, per decision and weighted, where the log says with what probability an action was taken.

    J = Σ_t Σ_e w_{e,t} r_{e,t},    w_{e,t} = ρ_{e,t} / Σ_e' ρ_{e',t},    ρ_{e,t} = Π_{u ≤ t} π(a_u|s_u) / β(a_u|s_u)

An episode that has ended keeps its last ratio and pays nothing, so that the weights of a step are over all episodes.
Products of many ratios leave the weight to few episodes: `effective_episodes` says to how many.

A deterministic policy has no density; `smoothed_log_density` gives it a Gaussian one around its action.

Shapes: N transitions, E episodes, T steps.
"""

import numpy as np
from jaxtyping import Float, Int

from ploff.judging.estimate import CONFIDENCE, Estimate
from ploff.transitions import Transitions

REPLICATES = 200  # of the bootstrap
SMOOTHING = 0.1  # deviation around a deterministic policy's action, in half-ranges


def weighted_returns(
    rewards: Float[np.ndarray, "N"],
    log_ratios: Float[np.ndarray, "N"],
    starts: Int[np.ndarray, "E"],
    lengths: Int[np.ndarray, "E"],
    counts: Float[np.ndarray, "E"] | None = None,
) -> float:
    """The weighted per-decision estimate.

    Args:
      rewards: as logged.
      log_ratios: log π(a|s) − log β(a|s) of every transition.
      starts: the first row of each episode.
      lengths: of each episode.
      counts: how often each episode counts; once by default.
    """
    weights, paid = _by_step(rewards, log_ratios, starts, lengths)
    weights = np.exp(weights - weights.max(axis=0, keepdims=True))
    if counts is not None:
        weights = weights * counts[:, None]
    total = weights.sum(axis=0)
    return float(np.sum((weights * paid).sum(axis=0) / np.where(total > 0, total, 1.0)))


def effective_episodes(
    log_ratios: Float[np.ndarray, "N"], starts: Int[np.ndarray, "E"], lengths: Int[np.ndarray, "E"]
) -> float:
    """(Σ ρ)² / Σ ρ² over whole episodes: how many equal ones they are worth."""
    total = np.add.reduceat(np.asarray(log_ratios, np.float64), starts)
    weights = np.exp(total - total.max())
    return float(weights.sum() ** 2 / np.square(weights).sum())


def smoothed_log_density(
    actions: Float[np.ndarray, "N A"], chosen: Float[np.ndarray, "N A"], unit: Float[np.ndarray, "A"]
) -> Float[np.ndarray, "N"]:
    """Log π(a|s) of logged actions under a Gaussian around the action that a policy chooses."""
    deviation = SMOOTHING * np.asarray(unit, np.float64)
    apart = (np.asarray(actions, np.float64) - chosen) / deviation
    return -0.5 * np.sum(np.square(apart) + np.log(2 * np.pi) + 2 * np.log(deviation), axis=-1)


def _by_step(
    rewards: np.ndarray, log_ratios: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> tuple[Float[np.ndarray, "E T"], Float[np.ndarray, "E T"]]:
    """Cumulated log ratios and rewards, an episode a row."""
    longest = int(lengths.max())
    ratios, paid = np.zeros((len(starts), longest)), np.zeros((len(starts), longest))
    for episode, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        ratios[episode, :length] = log_ratios[start : start + length]
        paid[episode, :length] = rewards[start : start + length]
    return np.cumsum(ratios, axis=1), paid


def estimate(
    rewards: Float[np.ndarray, "N"], log_ratios: Float[np.ndarray, "N"], data: Transitions, seed: int = 0
) -> tuple[Estimate, tuple[str, ...]]:
    """The weighted estimate with the bootstrap's interval, and a note where few episodes carry it."""
    starts, lengths = data.episode_starts(), data.episode_lengths()
    rng, count = np.random.default_rng(seed), len(starts)
    draws = rng.multinomial(count, np.full(count, 1.0 / count), REPLICATES)
    found = [weighted_returns(rewards, log_ratios, starts, lengths, drawn) for drawn in draws]
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    effective = effective_episodes(log_ratios, starts, lengths)
    note = (f"importance sampling rests on {effective:.1f} of {count} episodes",) if effective < 0.1 * count else ()
    return Estimate(weighted_returns(rewards, log_ratios, starts, lengths), float(low), float(high)), note
