r"""CQL for discrete actions (Kumar et al., 2020): values of what was not logged are pressed down.

    L = mean [ (Q(s,a) − y)² + α (log Σ_a' e^{Q(s,a')} − Q(s,a)) ],   a' legal, y of double DQN

Shapes: B rows, n actions.
"""

import dataclasses

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete import dqn
from ploff.agents.discrete.dqn import DQNConfig, DQNState
from ploff.agents.discrete.networks import Legal, masked, score_of
from ploff.transitions import Batch
from ploff.utils.config import check_not_negative

init, policy = dqn.init, dqn.policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class CQLConfig(DQNConfig):
    """Double DQN's, and the weight of the gap."""

    cql_alpha: float = 1.0  # α

    def __post_init__(self):
        super().__post_init__()
        check_not_negative(self, "cql_alpha")


def conservative_gap(q: Float[Array, "B n"], batch: Batch, legal: Legal) -> Float[Array, "B"]:
    """The soft maximum over the legal actions, less the value of the logged one."""
    return jax.nn.logsumexp(masked(q, legal), axis=-1) - score_of(q, batch.actions)


def update(state: DQNState, dataset: OfflineDataset, key: PRNGKeyArray, config: CQLConfig) -> tuple[DQNState, dqn.Info]:
    """One gradient step of the critic."""

    def penalty(q: Array, batch: Batch, legal: Legal) -> Array:
        return config.cql_alpha * conservative_gap(q, batch, legal)

    state, step = dqn.update_critic(state, dataset, key, config, penalty_fn=penalty)
    gap = conservative_gap(step.q_values, step.batch, step.legal).mean()
    return state, dqn.step_info(step) | {"cql_gap": gap}
