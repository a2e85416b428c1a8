r"""The distance from an action to anything that was tried in states alike (paper, section 4).

    d_D(s, a) = min over (ŝ, â) in D of d(s, a; ŝ, â)           `exact_distance`
              ≤ min over ŝ in H(s) of d(s, a; ŝ, â)             `DataDistance`, `OnlineDataDistance`

H(s) are the k nearest states to s under D(s; ŝ) = ‖Ψ(s) − Ψ(ŝ)‖.

The first looks at every logged pair: it is 0 at every logged pair, and logging more can only lower it. The second looks
at k, in a time that does not depend on the log's length. It is an upper bound, and 0 at every logged pair too, since a
state is its own first neighbor; but a new row may push a state out of H(s), and so it may rise when rows are added.
With k = N they are the same.

Shapes: B states, k neighbors, N logged pairs, P the width of an embedded pair.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ploff.metric.pseudometric import norm
from ploff.metric.quality import Embedding
from ploff.neighbors.knn import Exhaustive, Index
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.errors import DataError

BLOCK = 8_192  # rows embedded, or compared, at a time


class Euclidean(eqx.Module):
    """The plain metric: states and state-action pairs as they are, compared by L2 (the variant `ploff-l2`)."""

    def embed_states(self, observations: Float[Array, "*B S"]) -> Float[Array, "*B S"]:
        """The state itself."""
        return observations

    def embed_pairs(self, observations: Float[Array, "*B S"], actions: Float[Array, "*B A"]) -> Float[Array, "*B S+A"]:
        """State and action, side by side."""
        return jnp.concatenate([observations, actions], axis=-1)

    def pair_distance(self, x: Float[Array, "*#B P"], y: Float[Array, "*#B P"]) -> Float[Array, "..."]:
        """‖x − y‖₂."""
        return norm(x - y)

    @staticmethod
    def fingerprint(data: Transitions) -> str:
        """Tells the plain metric in the units of `data` from that in others."""
        return f"l2-{files.fingerprint(data.observation_normalizer)}"


class DataDistance(eqx.Module):
    """d_D at rows of a log, from its table of neighbors: a pytree, for use inside jit."""

    metric: Embedding
    data: Transitions  # on the device, in the metric's units
    pairs: Float[Array, "N P"]  # every logged pair, embedded
    neighbors: Int[Array, "M k"]

    @classmethod
    def init(cls, metric: Embedding, data: Transitions, neighbors: Int[np.ndarray, "M k"]) -> "DataDistance":
        """Embeds every logged pair once. `data` is in the units that the metric takes."""
        device = data.to_device()
        return cls(metric, device, jnp.asarray(embed_logged_pairs(metric, device)), jnp.asarray(neighbors))

    def neighbor_distances(self, rows: Int[Array, "B"], actions: Float[Array, "B A"]) -> Float[Array, "B k"]:
        """The distance of each action, taken in the state of that row, to the k pairs logged nearby."""
        return self.distances_to(self.data.states(rows), actions, self.neighbors[rows])

    def distance(self, rows: Int[Array, "B"], actions: Float[Array, "B A"]) -> Float[Array, "B"]:
        """d_D(s, a) in states of the log, by row; encoded actions, through which gradients flow."""
        return jnp.min(self.neighbor_distances(rows, actions), axis=-1)

    def action_distances(self, actions: Float[Array, "B A"], near: Int[Array, "B k"]) -> Float[Array, "B k"]:
        """How far each action is from those of the logged pairs that its row of `near` names, in half ranges."""
        logged = self.data.action_space.encode(jnp.asarray(self.data.actions)[near])
        return norm((actions[:, None] - logged) / jnp.asarray(self.data.action_space.unit, jnp.float32))

    def distances_to(
        self, observations: Float[Array, "B *obs"], actions: Float[Array, "B A"], near: Int[Array, "B k"]
    ) -> Float[Array, "B k"]:
        """The distance of each pair to the logged pairs that its row of `near` names."""
        embedded = self.metric.embed_pairs(observations, actions)
        return self.metric.pair_distance(embedded[:, None], self.pairs[near])


class OnlineDataDistance:
    """d_D in states that the log need not contain: their neighbors are searched for when asked."""

    def __init__(self, logged: DataDistance, index: Index | None = None):
        """Searches exhaustively unless an index over the Ψ of the log's acted states is given."""
        self.logged = logged
        self.index = index or Exhaustive(embed_logged_states(logged.metric, logged.data)[: logged.pairs.shape[0]])

    def neighbors(self, observations: Float[Array, "B *obs"]) -> Int[np.ndarray, "B k"]:
        """The nearest acted states of the log; observations are in the metric's units."""
        embedded = np.asarray(_embed_states(self.logged.metric, jnp.asarray(observations, jnp.float32)))
        return self.index.query(embedded, self.logged.neighbors.shape[1])

    def neighbor_distances(
        self, observations: Float[Array, "B *obs"], actions: Float[Array, "B A"]
    ) -> Float[Array, "B k"]:
        """The distance of each pair to the k pairs logged nearby."""
        near = jnp.asarray(self.neighbors(observations))
        return _distances_to(self.logged, jnp.asarray(observations, jnp.float32), jnp.asarray(actions), near)

    def distance(self, observations: Float[Array, "B *obs"], actions: Float[Array, "B A"]) -> Float[Array, "B"]:
        """d_D(s, a), as `DataDistance.distance` has it for rows."""
        return jnp.min(self.neighbor_distances(observations, actions), axis=-1)


@eqx.filter_jit
def exact_distance(
    metric: Embedding, pairs: Float[Array, "N P"], observations: Float[Array, "B *obs"], actions: Float[Array, "B A"]
) -> Float[Array, "B"]:
    """d_D over every logged pair, without neighbors: the slow reference."""
    embedded = metric.embed_pairs(observations, actions)

    def nearest(x: Array) -> Array:
        return jnp.min(metric.pair_distance(x, pairs))

    return jax.lax.map(nearest, embedded)


def distances_to_others(logged: DataDistance, sample: int | None = 20_000, seed: int = 0) -> Float[np.ndarray, "R"]:
    """The distance of logged pairs to the nearest other pair in their lists: what is usual within the log.

    Args:
      logged: the log, embedded.
      sample: rows to draw without repetition; None for all of them, in order.
      seed: of the draw.
    """
    count = logged.pairs.shape[0]
    if count < 2 or logged.neighbors.shape[1] < 2:
        raise DataError("a log of one transition, or of one neighbor a state, has no distances of its own")
    rows = np.arange(count)
    if sample is not None and sample < count:
        rows = np.sort(np.random.default_rng(seed).choice(count, sample, replace=False))
    return _over_blocks(lambda block: _nearest_other(logged, block), rows)


def median_nn_distance(logged: DataDistance, apart: Float[np.ndarray, "R"] | None = None) -> float:
    """σ: the median distance of a logged pair to its nearest other pair; pairs logged twice say nothing of it.

    Where every pair has a copy, the neighborhood's radius stands in for it. `apart` is what `distances_to_others` gave,
    if it was asked.
    """
    apart = distances_to_others(logged) if apart is None else apart
    apart = apart[apart > 0]
    return float(np.median(apart)) if len(apart) else neighborhood_radius(logged)


def neighborhood_radius(logged: DataDistance, sample: int = 5_000, seed: int = 0) -> float:
    """The median distance of a logged pair to the other pairs logged nearby: how wide a neighborhood is."""
    count = logged.pairs.shape[0]
    if count < 2 or logged.neighbors.shape[1] < 2:
        raise DataError("a log of one transition, or of one neighbor a state, has no distances of its own")
    rows = np.sort(np.random.default_rng(seed).choice(count, min(sample, count), replace=False))
    apart = _over_blocks(lambda block: _to_others(logged, block), rows)
    if np.median(apart) == 0:  # most are copies, which say nothing of how wide it is
        apart = apart[apart > 0]
    if len(apart) == 0:
        raise DataError("all logged pairs are alike, as far as the metric sees: there is nothing to measure by")
    return float(np.median(apart))


def action_spread(logged: DataDistance, sample: int = 5_000, seed: int = 0) -> float:
    """How far the actions logged nearby are from a state's own, along one direction: the median, in half ranges.

    States have no part in it: however far apart they are, the log's own noise on its actions is what it is.
    """
    count, width = logged.pairs.shape[0], logged.data.action_space.width
    rows = np.sort(np.random.default_rng(seed).choice(count, min(sample, count), replace=False))
    apart = _over_blocks(lambda block: _to_other_actions(logged, block), rows)
    apart = apart[apart > 0]
    return float(np.median(apart)) / math.sqrt(width) if len(apart) else 1.0


def action_sensitivity(logged: DataDistance, sample: int = 5_000, seed: int = 0) -> float:
    """How far a logged pair moves in the metric as its action moves: the median over pairs and directions.

    A step of 1 in the action is half the range of every component. 0 where the metric does not look at actions.
    """
    count = logged.pairs.shape[0]
    rows = np.sort(np.random.default_rng(seed).choice(count, min(sample, count), replace=False))
    directions = jax.random.normal(jax.random.key(seed), (len(rows), logged.data.action_space.width))
    directions = np.asarray(directions / jnp.linalg.norm(directions, axis=-1, keepdims=True))
    return float(np.median(_sensitivities(logged, jnp.asarray(rows, jnp.int32), jnp.asarray(directions))))


def state_distances(logged: DataDistance) -> Float[np.ndarray, "M k"]:
    """The distance of every state of the log to each of its neighbors: 0 to itself."""
    states = jnp.asarray(embed_logged_states(logged.metric, logged.data))
    rows = np.arange(logged.neighbors.shape[0])
    return _over_blocks(lambda block: _to_states(states, logged.neighbors, block), rows)


def embed_logged_states(metric: Embedding, data: Transitions) -> Float[np.ndarray, "M E"]:
    """Ψ of every state of a log; `data` is on the device."""
    _refuse_images(metric, data)
    return _over_blocks(lambda rows: _embed_states(metric, data.states(rows)), np.arange(data.num_states))


def embed_logged_pairs(metric: Embedding, data: Transitions) -> Float[np.ndarray, "N P"]:
    """Φ of every logged pair; `data` is on the device."""
    _refuse_images(metric, data)
    bare = dataclasses.replace(data, infos={})
    return _over_blocks(lambda rows: _embed_pairs(metric, bare, rows), np.arange(len(data)))


def _refuse_images(metric: Embedding, data: Transitions) -> None:
    if isinstance(metric, Euclidean) and len(data.observation_shape) != 1:
        raise DataError(
            f"the plain L2 metric compares vectors; observations of shape {data.observation_shape} need a learned one"
        )


def _over_blocks(function, rows: Int[np.ndarray, "R"]) -> np.ndarray:
    """`function` of all rows, in blocks of one size, so that it is compiled once."""
    size = min(BLOCK, len(rows))
    padded = np.resize(rows, -(-len(rows) // size) * size)
    blocks = [np.asarray(function(jnp.asarray(padded[i : i + size], jnp.int32))) for i in range(0, len(padded), size)]
    return np.concatenate(blocks)[: len(rows)]


@eqx.filter_jit
def _embed_states(metric: Embedding, observations: Array) -> Array:
    return metric.embed_states(observations)


@eqx.filter_jit
def _embed_pairs(metric: Embedding, data: Transitions, rows: Array) -> Array:
    batch = data.batch(rows)
    return metric.embed_pairs(batch.observations, batch.actions)


@eqx.filter_jit
def _distances_to(logged: DataDistance, observations: Array, actions: Array, near: Array) -> Array:
    return logged.distances_to(observations, actions, near)


@eqx.filter_jit
def _to_others(logged: DataDistance, rows: Array) -> Array:
    own, others = logged.pairs[rows], logged.pairs[logged.neighbors[rows, 1:]]
    return logged.metric.pair_distance(own[:, None], others)


@eqx.filter_jit
def _to_other_actions(logged: DataDistance, rows: Array) -> Array:
    return logged.action_distances(logged.data.batch(rows).actions, logged.neighbors[rows, 1:])


@eqx.filter_jit
def _sensitivities(logged: DataDistance, rows: Array, directions: Array) -> Array:
    batch, half_range = logged.data.batch(rows), logged.data.action_space.half_range
    moving = directions * jnp.asarray(half_range, batch.actions.dtype)
    _, moved = jax.jvp(lambda a: logged.metric.embed_pairs(batch.observations, a), (batch.actions,), (moving,))
    return logged.metric.pair_distance(moved, jnp.zeros_like(moved))


@jax.jit
def _to_states(states: Array, neighbors: Array, rows: Array) -> Array:
    return norm(states[rows][:, None] - states[neighbors[rows]])


def _nearest_other(logged: DataDistance, rows: Array) -> Array:
    return jnp.min(_to_others(logged, rows), axis=-1)
