r"""The nearest-neighbor estimate: the policy's episodes, stitched from logged transitions.

In a state of the log the policy's action is replaced by those of the logged pairs nearest to it, and the next state
is the one that followed there, itself a state of the log. Far from every logged pair the episode goes astray, and
earns the worst from there on. So the policy becomes a Markov chain on the log's states,

    V_h(s) = p(s) Σ_i w_i(s) (r_i + (1 − terminal_i) V_{h−1}(s_i')) + (1 − p(s)) h r₋,     V_0 = 0
    w_i ∝ e^{−(d_i/b)²/2},   p(s) = e^{−(min_i d_i/ℓ)²}

over the n pairs i nearest to (s, π(s)) among those logged in neighboring states; ℓ is the reach, and r₋ the 1% quantile
of the rewards (at most 0, where episodes end by themselves). Its value is exact: undiscounted, cut at the horizon, and
never beyond what rewards allow. With an infinite reach going astray costs nothing, with a short one it costs all that
would follow: the truth is thought to lie between.

Shapes: M states, N transitions, k neighbors, n of them with weight, B replicates.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ploff.judging.judged_log import JudgedLog
from ploff.neighbors import DataDistance
from ploff.transitions import UNKNOWN

NUM_NEAREST = 4  # n
NUM_REPLICATES = 4  # of the bootstrap over episodes
REACH = 20.0  # ℓ, in median distances of logged actions to other episodes
LONG_REACH = 40.0  # where policies are held against the log, seen in the same way
SHORT_REACH = 7.0  # of the interval's lower end; the upper end's has no limit
BLOCK = 8_192
FAR = 1e30
WORST = 0.01  # quantile of the rewards that an episode earns once it went astray


def distances_to(
    logged: DataDistance,
    actions: Float[np.ndarray, "R A"],
    rows: Int[np.ndarray, "R"],
    neighbors: Int[np.ndarray, "R k"],
) -> Float[np.ndarray, "R k"]:
    """How far actions in states of the log, by row, are from logged pairs, which each row's neighbors name."""
    size, found = min(BLOCK, len(rows)), list[np.ndarray]()
    for start in range(0, len(rows), size):
        part = np.resize(np.arange(start, min(start + size, len(rows))), size)  # one size, compiled once
        encoded = logged.data.action_space.encode(jnp.asarray(actions[part]))
        distances = _distances(logged, jnp.asarray(rows[part]), encoded, jnp.asarray(neighbors[part]))
        found.append(np.asarray(distances)[: len(rows) - start])
    return np.concatenate(found)


def chain_returns(
    log: JudgedLog,
    distances: Float[np.ndarray, "M k"],
    neighbors: Int[np.ndarray, "M k"],
    *,
    bandwidth: float,
    reach: float = np.inf,
    num_nearest: int = NUM_NEAREST,
    replicates: int = NUM_REPLICATES,
    seed: int = 0,
) -> Float[np.ndarray, "B S"]:
    """Expected returns of episodes from each first state.

    Args:
      log: the log.
      distances: of the policy's action in every state to the pairs logged nearby.
      neighbors: the rows of these pairs.
      bandwidth: b, in the distance's own unit.
      reach: ℓ, likewise.
      num_nearest: n.
      replicates: the first is over all episodes; the others draw episodes with repetition.
      seed: of these draws.
    """
    successors = np.asarray(log.data.successors)
    usable = (successors != UNKNOWN) | np.asarray(log.data.terminals)
    distances = np.where(usable[neighbors], distances, FAR)
    nearest = np.argpartition(distances, min(num_nearest, distances.shape[1]) - 1, axis=1)[:, :num_nearest]
    distances = np.take_along_axis(distances, nearest, axis=1)
    chosen = np.take_along_axis(np.asarray(neighbors), nearest, axis=1).astype(np.int32)
    least = np.min(distances, axis=1, keepdims=True)
    weights = np.exp(-0.5 * (np.square(distances) - np.square(least)) / max(bandwidth, 1e-12) ** 2)
    weights = np.where(distances >= FAR, 0.0, weights)
    stays = np.exp(-np.square(np.minimum(least / reach, 10.0)))
    counts = _episode_counts(int(log.owners.max()) + 1, replicates, seed)
    rewards, goes_on = np.asarray(log.data.rewards, np.float32), ~np.asarray(log.data.terminals)
    worst = np.float32(np.quantile(rewards, WORST))
    worst = min(worst, np.float32(0)) if log.has_ends else worst
    found = []
    for count in counts:
        drawn = weights * count[log.owners[chosen]]
        empty = drawn.sum(axis=1, keepdims=True) <= 0  # none of a state's neighbors was drawn
        drawn = np.where(empty, weights, drawn)
        drawn = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-30)
        values = _iterate(
            drawn.astype(np.float32), stays[:, 0], chosen, rewards, goes_on, log.next_states, worst, log.horizon
        )
        found.append(np.asarray(values)[log.starts])
    return np.stack(found)


def _episode_counts(episodes: int, replicates: int, seed: int) -> Float[np.ndarray, "B E"]:
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(episodes, np.full(episodes, 1.0 / episodes), max(replicates - 1, 0))
    return np.concatenate([np.ones((1, episodes)), drawn])


@eqx.filter_jit
def _distances(logged: DataDistance, rows: Array, actions: Array, neighbors: Array) -> Array:
    return logged.distances_to(logged.data.states(rows), actions, neighbors)


@functools.partial(jax.jit, static_argnames="horizon")
def _iterate(
    weights: Array,
    stays: Array,
    chosen: Array,
    rewards: Array,
    goes_on: Array,
    following: Array,
    worst: Array,
    horizon: int,
) -> Array:
    def step(values: Array, to_go: Array) -> tuple[Array, None]:
        gained = rewards + jnp.where(goes_on, values[following], 0.0)
        return stays * jnp.sum(weights * gained[chosen], axis=1) + (1 - stays) * to_go * worst, None

    begin = jnp.zeros(weights.shape[0])
    return jax.lax.scan(step, begin, 1.0 + jnp.arange(horizon))[0]
