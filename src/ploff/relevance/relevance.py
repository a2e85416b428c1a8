r"""What matters in an observation: a share for every column, and the coordinates in which learners see it.

    M = Σ_f max(0, 1 − e_f) · E[J_fᵀ J_f] / trace         e_f: the error of network f on held-out episodes, relative

M is taken over observations x = [s; decoy] of standardized columns; its block of the columns is what they are worth,
its block of the decoys what noise of their kind is worth to the same networks. Directions of s that weigh more than the
heaviest direction of the decoys are kept:

    M_ss = Σ_j λ_j u_j u_jᵀ,      z_j = u_jᵀ s  for  λ_j > λ_max(M_decoys)

so nothing is cut by a threshold of taste. |z₁ − z₂| is a fixed pseudometric on states, and z is what every learner sees
in place of s where a run asks for it. Directions, not columns: a rotation of the columns changes nothing.

Shapes: D columns, k kept directions, E episodes.
"""

import dataclasses
import os
from collections.abc import Generator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ploff.relevance.predictors import PREDICTORS, DecoyedLog, Fitted, RelevanceConfig, fit
from ploff.training.episode_split import EpisodeSplit
from ploff.transitions import Normalizer, Transitions
from ploff.utils import files
from ploff.utils.errors import PloffError
from ploff.utils.progress import Progress, follow

FORMAT = "ploff relevance 1"
MAX_ROWS = 2048  # whose derivatives are averaged, of each member
BLOCK = 256
RESAMPLES = 200  # of the episodes, for the intervals


@dataclasses.dataclass(frozen=True)
class Relevance:
    """What a log's columns are worth, and the map to the directions that matter."""

    dataset: str  # the log's fingerprint
    normalizer: Normalizer  # from columns to the coordinates that learners see
    shares: Float[np.ndarray, "D"]  # of each column in what is kept and cut together; they sum to 1
    intervals: Float[np.ndarray, "D 2"]  # of 95%, over episodes and members
    spectrum: Float[np.ndarray, "D"]  # λ, the heaviest first
    floor: float  # the heaviest direction of the decoys
    errors: dict[str, float]  # of each network on held-out episodes; 1 says nothing

    @property
    def kept(self) -> int:
        """k: directions above the floor; all where none is."""
        above = int(np.sum(self.spectrum > self.floor))
        return above or len(self.spectrum)

    @property
    def column_floor(self) -> float:
        """The share that a column has to exceed to be told from noise: the floor's, spread over all columns."""
        total = float(self.spectrum.sum())
        return self.floor / total if total else 0.0

    def relevant(self) -> list[bool]:
        """Which columns are told from noise: all of the interval lies above the decoys' heaviest direction."""
        return [bool(low > self.column_floor) for low, _ in self.intervals]

    def applied_to(self, data: Transitions) -> Transitions:
        """The same transitions, seen in the coordinates that matter."""
        return dataclasses.replace(data, observation_normalizer=self.normalizer)

    @classmethod
    def of_everything(cls, data: Transitions) -> "Relevance":
        """Keeps all of an observation: of images, whose pixels have no meaning of their own."""
        nothing, normalizer = np.zeros(0), data.with_normalized_observations().observation_normalizer
        return cls(data.fingerprint(), normalizer, nothing, np.zeros((0, 2)), nothing, 0.0, {})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as JSON, whole or not at all."""
        content = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        files.write_record(path, {"format": FORMAT, **content, "normalizer": self.normalizer.to_json()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Relevance":
        """Reads what `save` wrote."""
        content = files.read_record(path)
        if content.pop("format", None) != FORMAT:
            raise PloffError(f"{path} holds no relevance that this version reads; delete it, and it is made anew")
        arrays = {name: np.asarray(content.pop(name), np.float64) for name in ("shares", "intervals", "spectrum")}
        return cls(normalizer=Normalizer.from_json(content.pop("normalizer")), **arrays, **content)


def learn_relevance(data: Transitions, config: RelevanceConfig | None = None, *, quiet: bool = False) -> Relevance:
    """Learns what matters in a log's observations.

    Args:
      data: logged transitions, as loaded.
      config: how; the default takes less than a minute.
      quiet: show no progress.
    """
    return follow("relevance", find_relevance(data, config), quiet=quiet)


def find_relevance(data: Transitions, config: RelevanceConfig | None = None) -> Generator[Progress, None, Relevance]:
    """Does what `learn_relevance` does, as a generator of its progress."""
    config = config or RelevanceConfig()
    if len(data.observation_shape) != 1:
        raise PloffError(f"relevance is of columns; {data.origin.name} has observations of {data.observation_shape}")
    seen = _standardized(data)
    device, members, steps = seen.to_device(), list[_Member](), config.steps * config.members
    for number in range(config.members):
        rng = np.random.default_rng([config.seed, number])
        split = EpisodeSplit.of(data, config.validation_fraction, config.seed + number)
        if len(split.train) == 0:
            raise PloffError(f"{data.origin.name}: no transition with a known successor is left to learn from")
        log = DecoyedLog.of(device, rng)
        learning = fit(log, split.train, split.validation, int(rng.integers(2**31)), config)
        while True:
            try:
                yield Progress(number * config.steps + next(learning), steps)
            except StopIteration as end:
                fitted = end.value
                break
        rows = np.sort(rng.permutation(split.train)[:MAX_ROWS])
        members.append(_measure(fitted, log, rows, data))
    yield Progress(steps, steps)
    return _combine(seen, members, np.random.default_rng(config.seed))


@dataclasses.dataclass(frozen=True)
class _Member:
    """One member's M, its diagonal by episode, and its errors."""

    total: Float[np.ndarray, "X X"]
    by_episode: Float[np.ndarray, "E X"]
    errors: Float[np.ndarray, "3"]


def _standardized(data: Transitions) -> Transitions:
    """Columns and rewards with mean 0 and deviation 1."""
    rewards = np.asarray(data.rewards, np.float64)
    scale = max(float(rewards.std()), 1e-6)
    units = Normalizer(shift=np.asarray(rewards.mean(), np.float32), scale=np.asarray(scale, np.float32))
    return dataclasses.replace(data.with_normalized_observations(), reward_normalizer=units)


def _measure(fitted: Fitted, log: DecoyedLog, rows: Int[np.ndarray, "R"], data: Transitions) -> _Member:
    """M of one member over some rows."""
    width, columns = 2 * data.observation_shape[0], data.observation_shape[0]
    totals, diagonals = np.zeros((len(PREDICTORS), width, width)), []
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        padded = jnp.asarray(np.resize(block, BLOCK), jnp.int32)
        products = np.asarray(_sensitivities(fitted, log, padded), np.float64)[:, : len(block)]
        totals += products.sum(axis=1)
        diagonals.append(np.diagonal(products, axis1=-2, axis2=-1))
    traces = np.trace(totals[:, :columns, :columns], axis1=-2, axis2=-1)
    weights = np.clip(1 - fitted.errors, 0, 1) / np.maximum(traces, 1e-12)
    episodes = np.searchsorted(data.episode_ends(), rows)
    by_episode = np.zeros((episodes.max() + 1, width))
    np.add.at(by_episode, episodes, np.einsum("f,frx->rx", weights, np.concatenate(diagonals, axis=1)))
    return _Member(np.einsum("f,fxy->xy", weights, totals), by_episode[np.unique(episodes)], fitted.errors)


@eqx.filter_jit
def _sensitivities(fitted: Fitted, log: DecoyedLog, rows: jax.Array) -> jax.Array:
    return fitted.predictors.sensitivities(log.batch(rows))


def _combine(seen: Transitions, members: list[_Member], rng: np.random.Generator) -> Relevance:
    """The members' mean, and what it says of columns and directions."""
    columns = seen.observation_shape[0]
    mean = np.mean([member.total for member in members], axis=0)[:columns, :columns]
    spectrum, directions = np.linalg.eigh(mean)
    spectrum, directions = np.maximum(spectrum[::-1], 0), directions[:, ::-1]
    floor = max(float(np.linalg.eigvalsh(member.total[columns:, columns:])[-1]) for member in members)
    resampled = np.concatenate([_resampled_shares(member, columns, rng) for member in members])
    errors = np.mean([member.errors for member in members], axis=0)
    relevance = Relevance(
        dataset=seen.fingerprint(),
        normalizer=seen.observation_normalizer,
        shares=np.diag(mean) / max(float(np.trace(mean)), 1e-12),
        intervals=np.quantile(resampled, (0.025, 0.975), axis=0).T,
        spectrum=spectrum,
        floor=floor,
        errors={name: float(error) for name, error in zip(PREDICTORS, errors, strict=True)},
    )
    normalizer = dataclasses.replace(seen.observation_normalizer, map=_coordinates(seen, directions, relevance.kept))
    return dataclasses.replace(relevance, normalizer=normalizer)


def _resampled_shares(member: _Member, columns: int, rng: np.random.Generator) -> Float[np.ndarray, "R D"]:
    """Shares over episodes drawn with repetition."""
    count = len(member.by_episode)
    drawn = rng.multinomial(count, np.full(count, 1 / count), RESAMPLES) @ member.by_episode[:, :columns]
    return drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-12)


def _coordinates(seen: Transitions, directions: Float[np.ndarray, "D D"], kept: int) -> Float[np.ndarray, "D k"]:
    """The kept directions, each with deviation 1 over the states that were acted in."""
    directions = directions[:, :kept]
    states = np.asarray(seen.observation_normalizer.normalize(np.asarray(seen.observations)[: len(seen)]))
    return np.asarray(directions / np.maximum((states @ directions).std(axis=0), 1e-3), np.float32)
