"""How good a learned pseudometric is, measured on logged data alone. Shapes: Q queries, k neighbors.

- Bellman residual: how far held-out pairs are from the fixed-point equation d = F d, relative to their distances.
- support: can the distance to the data tell a logged action from a random one, and from one a set noise away? The area
  under the ROC curve over held-out states; 0.5 is chance.
- neighbor overlap: the share of nearest neighbors that two versions of the metric have in common.
"""

import dataclasses
from typing import Protocol, runtime_checkable

import equinox as eqx
import faiss
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.metric.losses import MetricBatch, draw_next_actions
from ploff.metric.pseudometric import MetricConfig, Pseudometric, norm, root_mean_square
from ploff.training.episode_split import EpisodeSplit
from ploff.transitions import Transitions

MAX_SEARCHED = 100_000  # rows that a check searches; all of a log's would outweigh it in memory
NOISE = 0.3  # of the second support measure: standard deviation, in units of half an action's range


@runtime_checkable
class Embedding(Protocol):
    """What turns states and pairs into vectors, and these into distances: a learned metric, or plain L2."""

    def embed_states(self, observations: Array) -> Array: ...  # noqa: D102
    def embed_pairs(self, observations: Array, actions: Array) -> Array: ...  # noqa: D102
    def pair_distance(self, x: Array, y: Array) -> Array: ...  # noqa: D102


def roc_auc(inside: Float[np.ndarray, "P"], outside: Float[np.ndarray, "Q"]) -> float:
    """The probability that a distance from `outside` exceeds one from `inside`, ties counted half."""
    ordered = np.sort(inside)
    below = np.searchsorted(ordered, outside, side="left")
    up_to = np.searchsorted(ordered, outside, side="right")
    return float(np.mean(0.5 * (below + up_to)) / len(inside))


def bellman_residual(
    metric: Pseudometric,
    data: Transitions,
    rows: Int[np.ndarray, "V"],
    key: PRNGKeyArray,
    config: MetricConfig,
    pairs: int = 1024,
    num_actions: int = 128,
) -> float:
    """√mean (‖Φ₁ − Φ₂‖ − (|r₁ − r₂| + v|s₁ − s₂| + γ E_u ‖Φ(s₁′,u) − Φ(s₂′,u)‖))², over the mean of the target."""
    wide = dataclasses.replace(config, num_next_actions=num_actions)
    return float(_bellman_residual(metric, data, jnp.asarray(rows), key, wide, pairs))


@eqx.filter_jit
def _bellman_residual(
    metric: Pseudometric, data: Transitions, rows: Array, key: PRNGKeyArray, config: MetricConfig, pairs: int
) -> Array:
    key_1, key_2, key_u = jax.random.split(key, 3)
    nowhere = jnp.zeros(pairs, bool) if metric.has_end else None
    first, second = (
        MetricBatch.of(data.batch(rows[jax.random.randint(k, (pairs,), 0, rows.shape[0])]), nowhere)
        for k in (key_1, key_2)
    )
    draws = draw_next_actions(data, rows, key_u, config)

    def over_action(total: Array, draw: tuple[Array, Array]) -> tuple[Array, None]:
        action, weight = draw
        repeated = jnp.broadcast_to(action, (pairs, action.shape[0]))
        apart = metric.phi(first.next_observations, repeated, first.next_ended)
        apart = apart - metric.phi(second.next_observations, repeated, second.next_ended)
        return total + weight * norm(apart), None

    following, _ = jax.lax.scan(over_action, jnp.zeros(pairs), draws)
    target = jnp.abs(first.rewards - second.rewards) + config.discount * following
    target = target + config.state_weight * root_mean_square(first.flat_states - second.flat_states)
    learned = norm(metric.phi(first.observations, first.actions) - metric.phi(second.observations, second.actions))
    return jnp.sqrt(jnp.mean(jnp.square(learned - target))) / jnp.maximum(jnp.mean(target), 1e-12)


def nearest_rows(
    embedding: Embedding, data: Transitions, base: np.ndarray, queries: np.ndarray, k: int
) -> Int[np.ndarray, "Q k"]:
    """The k rows among `base` whose states are nearest to those of `queries`, other than these themselves."""
    index = faiss.IndexFlatL2(int(_embed_states(embedding, data, queries[:1]).shape[1]))
    for rows in np.array_split(base, max(1, len(base) // 8192)):
        index.add(_embed_states(embedding, data, rows))  # pyright: ignore[reportCallIssue]
    wanted = min(k + 1, len(base))
    found = base[index.search(_embed_states(embedding, data, queries), wanted)[1]]  # pyright: ignore
    # Each row without itself, which a stable sort moves to the end of its list.
    order = np.argsort(found == queries[:, None], axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)[:, :k]


def support_auc(
    embedding: Embedding, data: Transitions, split: EpisodeSplit, key: PRNGKeyArray, queries: int = 1000, k: int = 50
) -> tuple[float, float]:
    """ROC areas of the distance to the training rows: held-out logged actions against random, and noisy, ones."""
    rng = np.random.default_rng(int(jax.random.randint(key, (), 0, 2**31 - 1)))
    rows = rng.permutation(split.validation)[:queries]
    base = split.train
    if len(base) > MAX_SEARCHED:
        base = rng.choice(base, MAX_SEARCHED, replace=False)
    neighbors = nearest_rows(embedding, data, base, rows, k)
    logged, uniform, noisy = map(
        np.asarray, _support_distances(embedding, data, jnp.asarray(rows), jnp.asarray(neighbors), key)
    )
    return roc_auc(logged, uniform), roc_auc(logged, noisy)


@eqx.filter_jit
def _support_distances(
    embedding: Embedding, data: Transitions, rows: Array, neighbors: Array, key: PRNGKeyArray
) -> tuple[Array, Array, Array]:
    uniform_key, noise_key = jax.random.split(key)
    space, batch = data.action_space, data.batch(rows)
    uniform = space.sample(uniform_key, rows.shape[0])
    if space.kind == "box":
        noisy = space.perturb(batch.actions, NOISE * jax.random.normal(noise_key, batch.actions.shape))
    else:  # a choice is either the logged one or another: the noise replaces it with probability NOISE
        replaced = jax.random.bernoulli(noise_key, NOISE, (rows.shape[0], 1))
        noisy = jnp.where(replaced, uniform, batch.actions)

    def distance(observation: Array, near: Array, actions: Array) -> Array:
        logged = data.batch(near)
        evidence = embedding.embed_pairs(logged.observations, logged.actions)
        repeated = jnp.broadcast_to(observation, (actions.shape[0], *observation.shape))
        return jnp.min(
            embedding.pair_distance(embedding.embed_pairs(repeated, actions)[:, None], evidence[None]), axis=1
        )

    def of_row(arguments: tuple[Array, Array, Array]) -> Array:
        return distance(*arguments)

    candidates = jnp.stack([batch.actions, uniform, noisy], axis=1)
    distances = jax.lax.map(of_row, (batch.observations, neighbors, candidates), batch_size=32)
    return distances[:, 0], distances[:, 1], distances[:, 2]


def neighbor_overlap(before: Int[np.ndarray, "Q k"], after: Int[np.ndarray, "Q k"]) -> float:
    """The mean share of neighbors that are in both lists."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(before, after, strict=True)]))


@eqx.filter_jit
def _embed(embedding: Embedding, data: Transitions, rows: Array) -> Array:
    return embedding.embed_states(data.states(rows))


def _embed_states(embedding: Embedding, data: Transitions, rows: np.ndarray) -> Float[np.ndarray, "Q E"]:
    # Padded to a few sizes, so that blocks of nearly equal length share one compilation.
    size = 1 << max(0, (len(rows) - 1).bit_length())
    padded = np.concatenate([rows, np.full(size - len(rows), rows[-1])])
    return np.ascontiguousarray(_embed(embedding, data, jnp.asarray(padded)))[: len(rows)]
