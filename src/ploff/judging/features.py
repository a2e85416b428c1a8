"""What fitted Q evaluation reads of states and actions: themselves, or their embedding under the learned metric."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ploff.judging.fqe import FQEData
from ploff.judging.judged_log import BLOCK, JudgedLog
from ploff.neighbors import DataDistance

# (log, rows of states, actions there) to inputs [R, D]
PairsFn = Callable[[JudgedLog, Int[np.ndarray, "R"], Float[np.ndarray, "R A"]], Float[np.ndarray, "R D"]]


def plain_pairs(
    log: JudgedLog, rows: Int[np.ndarray, "R"], actions: Float[np.ndarray, "R A"]
) -> Float[np.ndarray, "R D"]:
    """States in standard deviations, and actions in half-ranges."""
    states = np.asarray(log.normalized.states(rows)).reshape(len(rows), -1)
    return np.concatenate([states, np.asarray(log.data.action_space.to_unit(jnp.asarray(actions)))], axis=1)


def embedded_pairs(
    log: JudgedLog, rows: Int[np.ndarray, "R"], actions: Float[np.ndarray, "R A"], *, logged: DataDistance
) -> Float[np.ndarray, "R D"]:
    """Φ(s, a), in standard deviations of the logged pairs'."""
    deviation = np.maximum(np.asarray(logged.pairs).std(axis=0), 1e-6)
    size, found = min(BLOCK, len(rows)), list[np.ndarray]()
    for start in range(0, len(rows), size):
        part = np.resize(np.arange(start, min(start + size, len(rows))), size)
        embedded = np.asarray(_embed(logged, jnp.asarray(rows[part]), jnp.asarray(actions[part])))
        found.append(embedded[: len(rows) - start])
    return (np.concatenate(found) - np.asarray(logged.pairs).mean(axis=0)) / deviation


def fqe_data(log: JudgedLog, actions: Float[np.ndarray, "M A"], pairs: PairsFn, *, only_acted: bool = False) -> FQEData:
    """The transitions of a log under a policy.

    Args:
      log: the log.
      actions: of the policy, in every state.
      pairs: makes the inputs.
      only_acted: leave out transitions into states in which no action was taken; for the log's own actions.
    """
    terminals = np.asarray(log.data.terminals)
    rows, following = log.rows, log.next_states
    if only_acted:
        rows = rows[terminals[rows] | (following[rows] < len(log.data))]
    ahead = following[rows]
    logged = np.asarray(log.data.actions, np.float32)
    rewards = np.asarray(log.data.rewards, np.float32)[rows]
    return FQEData(
        inputs=jnp.asarray(pairs(log, rows, logged[rows])),
        next_inputs=jnp.asarray(pairs(log, ahead, actions[ahead])),
        costs=jnp.stack([jnp.asarray(rewards), jnp.ones(len(rows))], axis=1),
        continues=jnp.asarray(~terminals[rows], jnp.float32),
        starts=jnp.asarray(pairs(log, log.starts, actions[log.starts])),
        owners=log.owners[rows],
    )


@eqx.filter_jit
def _embed(logged: DataDistance, rows: Array, actions: Array) -> Array:
    return logged.metric.embed_pairs(logged.data.states(rows), logged.data.action_space.encode(actions))
