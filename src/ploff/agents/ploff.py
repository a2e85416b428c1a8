r"""PLOff: TD3 that is paid to stay close to its evidence (paper, section 4).

    actor:   max mean [ Q(s, π(s)) / u + α_a b(s, π(s)) ]
    critic:  y = r + (1 − terminal) backed_up(Q̄(s', ã), d(s', π̄(s')))       see `ploff.agents.bonus`

Both have units of their own, so that one setting fits logs of different scales and widths. Distances are in deviations:
the log's spread along one of the A directions in which an action can move, so that −d²/2 is the logarithm of a Gaussian
with the log's own noise. u is what the critic promises for moving by one of them, the batch's mean of ‖∂Q/∂a‖. Against
the bonus of one pair the policy then moves 1/α_a deviations from it to where the critic points, however steep the
critic is. The distance is that of the target policy's action without its smoothing noise: noise must not cost an
action that is in the data. `PloffConfig.paper()` is the printed algorithm, which diverges.

The mean and the density weigh logged pairs by how alike their states are and by what the critics think of the pairs.
Those values are not computed for the purpose: each step leaves those of its own batch in a table with a row a
transition, as standard scores within the batch, since values grow while they are learned and an entry of today must
compare with one of a thousand steps ago.

The policy is not the actor itself but a moving average of it, whose memory is a tenth of the training so far: in long
episodes small fluctuations of the last steps decide between running and falling (Block et al., 2023).
"""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.actor_critic import Actor, moved
from ploff.agents.bonus import WEIGHED, Bonus, CriticForm, backed_up, bonus, log_weights, standard_scores
from ploff.agents.log import Evidence, Log
from ploff.agents.td3 import Seen, TD3Config, TD3Info, TD3State
from ploff.errors import PloffError
from ploff.settings import counts, not_negative, positive, within


@dataclasses.dataclass(frozen=True, kw_only=True)
class PloffConfig(TD3Config):
    """One setting for all tasks; `PloffConfig.paper()` is the printed one."""

    layer_norm: bool = True
    target_rate: float = 0.02
    bonus: Bonus = "mean"
    critic_form: CriticForm = "contractive"
    actor_weight: float = 2.5  # α_a
    critic_weight: float = 0.0  # α_c
    neighbours: int = 20  # k: so many of those in the table are looked at
    sharpness: float = 1.0  # β, of the bonuses that have it
    sway: float = 1.0  # κ: how much more the better ones among the logged pairs count; 0: all alike
    focus: float = 10.0  # ρ: how much more pairs of states more alike count; 0: all alike
    unit: Literal["deviation", "spread", "spacing", "learned"] = (
        "deviation"  # of distances: the log's own, or none
    )
    value_unit: Literal["slope", "size", "reward"] = "slope"  # of values: a unit's worth, mean |Q|, none
    averaging: float = 0.1  # the policy averages actors with a memory of this share of training; 0: the last

    def __post_init__(self):
        super().__post_init__()
        within(self, "[0, 1]", "averaging")
        not_negative(self, "actor_weight", "critic_weight", "sway", "focus")
        positive(self, "sharpness")
        counts(self, "neighbours")

    @classmethod
    def paper(cls, **changes: Any) -> "PloffConfig":
        """As printed for locomotion; hand manipulation has both weights at 10."""
        printed = {
            "layer_norm": False,
            "target_rate": 0.005,
            "bonus": "value",
            "critic_form": "paper",
            "actor_weight": 5.0,
            "critic_weight": 1.0,
            "neighbours": 50,
            "sharpness": 0.5,
            "unit": "learned",
            "value_unit": "reward",
            "averaging": 0.0,
        }
        return cls(**{**printed, **changes})


class PloffState(TD3State):
    """TD3's, the policy, and what the critics last thought of the logged pairs, as standard scores."""

    policy: Actor
    believed: Float[Array, "N"]


def init(key: PRNGKeyArray, log: Log, config: PloffConfig) -> PloffState:
    """Fresh networks, and no belief yet: all logged pairs are alike."""
    fresh = td3.init(key, log, config)
    return PloffState(**vars(fresh), policy=fresh.actor, believed=jnp.zeros(len(log.data)))


def act(state: PloffState, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
    """The policy's actions."""
    return state.policy(observations)


def update(state: PloffState, log: Log, key: PRNGKeyArray, config: PloffConfig) -> tuple[PloffState, TD3Info]:
    """One step of TD3 with the bonus in the actor's loss and in the critics' target."""
    evidence = log.evidence
    if evidence is None:
        raise PloffError("ploff needs distances to the data: a log with evidence")
    view = _View(evidence, state.believed, config)

    def backup(value: Array, rows: Array, actions: Array) -> Array:
        if config.critic_weight == 0:
            return config.discount * value
        return backed_up(
            config.bonus,
            config.critic_form,
            value,
            view.distances(rows, actions),
            discount=config.discount,
            weight=config.critic_weight,
            sharpness=config.sharpness,
            log_weights=view.log_weights(rows),
        )

    def objective(
        seen: Seen, actions: Float[Array, "B A"], value: Float[Array, "B"], slope: Float[Array, "B A"]
    ) -> tuple[Array, Array]:
        distances = view.distances(seen.rows, actions)
        earned = bonus(config.bonus, value, distances, config.sharpness, view.log_weights(seen.rows))
        unit = view.value_unit(value, slope)
        scale = unit if config.bonus == "value" else 1.0  # that bonus has the units of the value
        loss = -jnp.mean(value) / unit - config.actor_weight * jnp.mean(earned) / scale
        nearest = jnp.mean(jnp.min(distances, axis=-1))
        return loss, nearest * view.unit / evidence.spacing

    state, seen = td3.learn_critics(state, log, key, config, backup)
    believed = state.believed.at[seen.rows].set(standard_scores(jnp.min(seen.values, axis=0)))
    state, info = td3.learn_actor(dataclasses.replace(state, believed=believed), seen, config, objective)
    return dataclasses.replace(state, policy=_averaged(state, config)), info


def _averaged(state: PloffState, config: PloffConfig) -> Actor:
    """The policy after a step: the actors' moving average; its memory grows with the number of the actor's steps."""
    if config.averaging == 0:
        return state.actor
    count = state.step // config.delay
    rate = 1.0 / jnp.maximum(1.0, config.averaging * count)
    return moved(state.policy, state.actor, jnp.where(state.step % config.delay == 0, rate, 0.0))


class _View:
    """The evidence as a configuration looks at it."""

    def __init__(self, evidence: Evidence, believed: Float[Array, "N"], config: PloffConfig):
        self.logged, self.apart, self.believed = evidence.logged, evidence.apart, believed
        self.config = config
        units = {
            "deviation": evidence.deviation,
            "spread": evidence.spread,
            "spacing": evidence.spacing,
            "learned": jnp.ones(()),
        }
        self.unit, self.slope = units[config.unit], evidence.slope

    def value_unit(self, value: Float[Array, "B"], slope: Float[Array, "B A"]) -> Float[Array, ""]:
        """What a value is measured by: a constant."""
        if self.config.value_unit == "reward":
            return jnp.ones(())
        if self.config.value_unit == "size":
            return jnp.mean(jnp.abs(jax.lax.stop_gradient(value)))
        half_range = jnp.asarray(self.logged.data.action_space.half_range, jnp.float32)
        steepness = jnp.mean(jnp.linalg.norm(slope * half_range, axis=-1))
        unit_in_actions = self.unit / jnp.maximum(self.slope, 1e-6)
        return jnp.maximum(steepness * unit_in_actions, 1e-6)

    def distances(self, rows: Int[Array, "B"], actions: Float[Array, "B A"]) -> Float[Array, "B k"]:
        """To the pairs logged nearby."""
        states = self.logged.data.states(rows)
        return self.logged.distances_to(states, actions, self._near(rows)) / self.unit

    def log_weights(self, rows: Int[Array, "B"]) -> Float[Array, "B k"] | None:
        """Of those pairs; None for a bonus of the nearest alone."""
        if self.config.bonus not in WEIGHED:
            return None
        apart = self.apart[rows, : self.config.neighbours].astype(jnp.float32)
        return log_weights(self.believed[self._near(rows)], apart, self.config.sway, self.config.focus)

    def _near(self, rows: Int[Array, "B"]) -> Int[Array, "B k"]:
        return self.logged.neighbours[rows, : self.config.neighbours]
