r"""PLOff: TD3 that is paid to stay close to its evidence (paper, section 4).

    actor:   max mean [ Q(s, π(s)) / |Q| + α_a b(s, π(s)) ]                 |Q|: the batch's mean, a constant
    critic:  y = r + (1 − terminal) backed_up(Q̄(s', ã), d(s', π̄(s')))       see `ploff.agents.bonus`

Distances are in units of the log's own spacing, and values in units of their own size, so that one setting fits logs of
different scales. The distance is that of the target policy's action without its smoothing noise: noise must not cost an
action that is in the data. `PloffConfig.paper()` is the printed algorithm, which diverges.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.bonus import Bonus, CriticForm, backed_up, bonus
from ploff.agents.log import Evidence, Log
from ploff.agents.td3 import TD3Config, TD3Info, TD3State
from ploff.errors import PloffError
from ploff.transitions import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class PloffConfig(TD3Config):
    """One setting for all tasks; `PloffConfig.paper()` is the printed one."""

    layer_norm: bool = True
    bonus: Bonus = "density"
    critic_form: CriticForm = "contractive"
    actor_weight: float = 0.4  # α_a
    critic_weight: float = 0.0  # α_c
    sharpness: float = 1.0  # β
    spacings: bool = True  # distances in units of the log's spacing, or as learned
    normalise: bool = True  # the value in the actor's loss, by its mean size

    def __post_init__(self):
        super().__post_init__()
        if min(self.actor_weight, self.critic_weight, self.sharpness) < 0:
            raise PloffError("actor_weight, critic_weight and sharpness must not be negative")

    @classmethod
    def paper(cls, **changes: Any) -> "PloffConfig":
        """As printed for locomotion; hand manipulation has both weights at 10."""
        printed = {
            "layer_norm": False,
            "bonus": "value",
            "critic_form": "paper",
            "actor_weight": 5.0,
            "critic_weight": 1.0,
            "sharpness": 0.5,
            "spacings": False,
            "normalise": False,
        }
        return cls(**{**printed, **changes})


init, act = td3.init, td3.act


def update(state: TD3State, log: Log, key: PRNGKeyArray, config: PloffConfig) -> tuple[TD3State, TD3Info]:
    """One step of TD3 with the bonus in the actor's loss and in the critics' target."""
    evidence = log.evidence
    if evidence is None:
        raise PloffError("ploff needs distances to the data: a log with evidence")

    def objective(
        batch: Batch, rows: Int[Array, "B"], actions: Float[Array, "B A"], value: Float[Array, "B"]
    ) -> tuple[Array, Array]:
        distances = _distances(evidence, rows, actions, config)
        earned = bonus(config.bonus, value, distances, config.sharpness)
        size = jnp.mean(jnp.abs(jax.lax.stop_gradient(value))) if config.normalise else 1.0
        scale = size if config.bonus == "value" else 1.0  # that bonus has the units of the value
        loss = -jnp.mean(value) / size - config.actor_weight * jnp.mean(earned) / scale
        return loss, jnp.mean(jnp.min(distances, axis=-1))

    def backup(value: Array, rows: Array, actions: Array) -> Array:
        if config.critic_weight == 0:
            return config.discount * value
        return backed_up(
            config.bonus,
            config.critic_form,
            value,
            _distances(evidence, rows, actions, config),
            discount=config.discount,
            weight=config.critic_weight,
            sharpness=config.sharpness,
        )

    return td3.step(state, log, key, config, backup, objective)


def _distances(evidence: Evidence, rows: Array, actions: Array, config: PloffConfig) -> Float[Array, "B k"]:
    if config.spacings:
        return evidence.neighbour_distances(rows, actions)
    return evidence.logged.neighbour_distances(rows, actions)
