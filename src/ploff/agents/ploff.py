r"""PLOff: TD3 that is paid to stay close to the data (paper, section 4).

    actor:   max mean [ Q(s, π(s)) / u + α_a b(s, π(s)) ]
    critic:  y = r + (1 − terminal) next_value(Q̄(s', ã), d(s', π̄(s')))       see `ploff.agents.bonus`

Q is the first critic. Where b multiplies a value, it is the target network's: in the actor's loss Q̄ of the first.

States choose the neighbors and weigh them; how far an action deviates from theirs is the distance of the actions alone.
A distance of pairs would grow with all that distinguishes two states, and the bonus pull the harder the less alike they
are. `deviation="pair"` has the paper's distance of pairs.

Both have units of their own, so that one setting fits logs of different scales and widths. Deviations are in standard
deviations of the log: how far the actions logged nearby are from each other along one of the A directions in which an
action can move, so that −d²/2 is the logarithm of a Gaussian with the log's own noise. States have no part in the unit,
however many of their columns mean nothing. u is what the critic promises for moving by one of them, the batch's mean of
‖∂Q/∂a‖. Against the bonus of one pair the policy then moves 1/α_a deviations from it to where the critic points,
however steep the critic is. The distance is that of the target policy's action without its smoothing noise: noise must
not cost an action that is in the data. `PloffConfig.paper()` is the printed algorithm, which diverges.

The mean and the density weigh logged pairs by how alike their states are and by what the critics think of the pairs.
Those values are not computed for the purpose: each step leaves those of its own batch in a table with one row per
transition, as standard scores within the batch, since values grow while they are learned and an entry of today must
compare with one of a thousand steps ago.

All else is `ploff.agents.td3_off`'s: networks, rates, and the moving average that the policy is.
"""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3, td3_off
from ploff.agents.bonus import WEIGHTED, Bonus, CriticForm, bonus, log_weights, next_value_with_bonus, standard_scores
from ploff.agents.dataset import DistanceStats, OfflineDataset
from ploff.agents.td3 import CriticStep, Info
from ploff.agents.td3_off import TD3OffConfig, TD3OffState, average_actor
from ploff.tasks import Family
from ploff.utils.config import check_counts, check_not_negative, check_positive
from ploff.utils.errors import PloffError

# α_a, α_c and β, as the paper chose them for each family of tasks.
LOCOMOTION_WEIGHTS = {"actor_bonus_weight": 5.0, "critic_bonus_weight": 1.0, "beta": 0.5}
HAND_WEIGHTS = {"actor_bonus_weight": 10.0, "critic_bonus_weight": 10.0, "beta": 0.5}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PloffConfig(TD3OffConfig):
    """One setting for all tasks; `PloffConfig.paper()` is the printed one."""

    bonus: Bonus = "mean"
    critic_form: CriticForm = "contractive"
    actor_bonus_weight: float = 2.5  # α_a
    critic_bonus_weight: float = 0.0  # α_c
    deviation: Literal["action", "pair"] = "action"  # d_i: of actions alone, or of pairs of state and action
    num_neighbors: int = 20  # k: so many of those in the table are looked at
    beta: float = 1.0  # β, of the bonuses that have it
    value_temperature: float = 3.0  # κ: how much more the better logged pairs count; 0: all alike
    state_kernel: float = 10.0  # ρ: how much more pairs of states more alike count; 0: all alike
    distance_unit: Literal["std", "none"] = "std"  # of the deviations: the log's own along one direction
    value_scale: Literal["action_gradient", "mean_abs", "none"] = "action_gradient"  # u; mean_abs is TD3+BC's

    def __post_init__(self):
        super().__post_init__()
        check_not_negative(self, "actor_bonus_weight", "critic_bonus_weight", "value_temperature", "state_kernel")
        check_positive(self, "beta")
        check_counts(self, "num_neighbors")

    @classmethod
    def paper(cls, family: Family = "locomotion", **changes: Any) -> "PloffConfig":
        """As printed for a family of tasks; tasks of no known family take locomotion's weights."""
        printed = {
            **(HAND_WEIGHTS if family == "hand" else LOCOMOTION_WEIGHTS),
            "bonus": "value",
            "critic_form": "paper",
            "deviation": "pair",
            "num_neighbors": 50,
            "distance_unit": "none",
            "value_scale": "none",
        }
        return super().paper(family, **{**printed, **changes})


class PloffState(TD3OffState):
    """TD3-Off's, and the critics' last values of the logged pairs, as standard scores."""

    logged_q_scores: Float[Array, "N"]


class NeighborBonus:
    """Distances to the pairs logged nearby, and their weights, as a configuration asks for them."""

    def __init__(self, stats: DistanceStats, logged_q_scores: Float[Array, "N"], config: PloffConfig):
        self.stats, self.logged_q_scores, self.config = stats, logged_q_scores, config
        std = stats.action_spread if config.deviation == "action" else stats.directional_std
        self.unit = std if config.distance_unit == "std" else jnp.ones(())

    def value_scale(self, q: Float[Array, "B"], q_grad: Float[Array, "B A"]) -> Float[Array, ""]:
        """u: what values are divided by, as a constant."""
        if self.config.value_scale == "none":
            return jnp.ones(())
        if self.config.value_scale == "mean_abs":
            return jnp.mean(jnp.abs(jax.lax.stop_gradient(q)))
        space = self.stats.data_distance.data.action_space
        half_range = jnp.asarray(space.half_range, jnp.float32)
        steepness = jnp.mean(jnp.linalg.norm(q_grad * half_range, axis=-1))
        sensitivity = 1.0 if self.config.deviation == "action" else self.stats.action_sensitivity
        unit_in_actions = self.unit / jnp.maximum(sensitivity, 1e-6)
        return jnp.maximum(steepness * unit_in_actions, 1e-6)

    def distances(self, rows: Int[Array, "B"], actions: Float[Array, "B A"]) -> Float[Array, "B k"]:
        """From the actions to those logged nearby, or from the pairs to those."""
        distance = self.stats.data_distance
        if self.config.deviation == "action":
            return distance.action_distances(actions, self._neighbors(rows)) / self.unit
        return distance.distances_to(distance.data.states(rows), actions, self._neighbors(rows)) / self.unit

    def log_weights(self, rows: Int[Array, "B"]) -> Float[Array, "B k"] | None:
        """Of those pairs; None for a bonus of the nearest alone."""
        config = self.config
        if config.bonus not in WEIGHTED:
            return None
        squared = self.stats.state_distances_sq[rows, : config.num_neighbors].astype(jnp.float32)
        scores = self.logged_q_scores[self._neighbors(rows)]
        return log_weights(scores, squared, config.value_temperature, config.state_kernel)

    def _neighbors(self, rows: Int[Array, "B"]) -> Int[Array, "B k"]:
        return self.stats.data_distance.neighbors[rows, : self.config.num_neighbors]


policy = td3_off.policy


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: PloffConfig) -> PloffState:
    """Draws the networks; all logged pairs count alike at first."""
    state = td3_off.init(key, dataset, config)
    return PloffState(**vars(state), logged_q_scores=jnp.zeros(len(dataset.data)))


def update(
    state: PloffState, dataset: OfflineDataset, key: PRNGKeyArray, config: PloffConfig
) -> tuple[PloffState, Info]:
    """One step of TD3 with the bonus in the actor's loss and in the critics' target."""
    stats = dataset.distances
    if stats is None:
        raise PloffError("ploff needs distances to the data: a dataset with `DistanceStats`")
    near, target_critics = NeighborBonus(stats, state.logged_q_scores, config), state.critics.target

    def next_value(value: Array, next_states: Array, actions: Array) -> Array:
        if config.critic_bonus_weight == 0:
            return config.discount * value
        return next_value_with_bonus(
            config.bonus,
            config.critic_form,
            value,
            near.distances(next_states, actions),
            discount=config.discount,
            weight=config.critic_bonus_weight,
            beta=config.beta,
            log_weights=near.log_weights(next_states),
        )

    def actor_loss(
        step: CriticStep, actions: Float[Array, "B A"], q: Float[Array, "B"], q_grad: Float[Array, "B A"]
    ) -> tuple[Array, Info]:
        distances = near.distances(step.rows, actions)
        target_q = td3.q1(target_critics, step.batch.observations, actions)
        earned = bonus(config.bonus, target_q, distances, config.beta, near.log_weights(step.rows))
        scale = near.value_scale(q, q_grad)
        bonus_scale = scale if config.bonus == "value" else 1.0  # that bonus has the units of the value
        loss = -jnp.mean(q) / scale - config.actor_bonus_weight * jnp.mean(earned) / bonus_scale
        nearest = jnp.mean(jnp.min(distances, axis=-1))
        usual = near.unit if config.deviation == "action" else stats.median_nn_distance
        return loss, {"data_distance": nearest * near.unit / usual}

    state, step = td3.update_critics(state, dataset, key, config, next_value)
    scores = state.logged_q_scores.at[step.rows].set(standard_scores(jnp.min(step.q_values, axis=0)))
    state = dataclasses.replace(state, logged_q_scores=scores)
    state, info = td3.update_actor(state, step, config, actor_loss)
    return dataclasses.replace(state, averaged_actor=average_actor(state, config)), info
