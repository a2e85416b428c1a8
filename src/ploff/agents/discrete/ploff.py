r"""PLOff for discrete actions: double DQN that is paid to stay close to the data (paper, section 4).

    scores:  Q(s, a) / u + α b(s, a)        for every action at once
    critic:  y = r + (1 − terminal) γ (Q̄(s', a*) + α_c u b(s', a*)),   a* the legal action of the highest score
    policy:  the legal action of the highest Q(s, a) / u + α b̂(s, a)

b is a bonus of `ploff.agents.bonus`, of the distances from (s, a) to the pairs logged nearby, in radii of a
neighborhood. With few actions it is known for all of them, so nothing has to climb it. u is how much Q differs between
the actions of a state, in the mean over states: α weighs the bonus against what the critic promises for a choice,
whatever the rewards measure in. b̂ is a network that repeats b, so that the policy needs no log where it acts.

Shapes: B rows, n actions, k neighbors, P the width of an embedded pair.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents.bonus import WEIGHTED, Bonus, bonus, log_weights, standard_scores
from ploff.agents.dataset import DistanceStats, OfflineDataset
from ploff.agents.discrete import dqn
from ploff.agents.discrete.dqn import DQNConfig, DQNState, Info
from ploff.agents.discrete.networks import ActionScores, ChoicePolicy, Legal, deviation, masked, score_of
from ploff.training.train_state import TrainState
from ploff.utils.config import check_counts, check_not_negative, check_positive
from ploff.utils.errors import PloffError

SCALE_RATE = 0.01  # of the moving average of u
LEAST = 1e-6  # that is divided by


@dataclasses.dataclass(frozen=True, kw_only=True)
class PloffConfig(DQNConfig):
    """One setting for all logs."""

    bonus: Bonus = "mean"
    actor_bonus_weight: float = 1.0  # α
    critic_bonus_weight: float = 0.0  # α_c
    bonus_lr: float = 3e-4  # of b̂
    num_neighbors: int = 20  # k: so many of those in the table are looked at
    beta: float = 1.0  # β, of the bonuses that have it
    value_temperature: float = 1.0  # κ: how much more the better logged pairs count; 0: all alike
    state_kernel: float = 10.0  # ρ: how much more pairs of states more alike count; 0: all alike

    def __post_init__(self):
        super().__post_init__()
        check_not_negative(self, "actor_bonus_weight", "critic_bonus_weight", "value_temperature", "state_kernel")
        check_positive(self, "beta", "bonus_lr")
        check_counts(self, "num_neighbors")


class PloffState(DQNState):
    """Double DQN's, b̂, u, α, and the critic's last values of the logged pairs, as standard scores."""

    bonus: TrainState[ActionScores]
    value_scale: Float[Array, ""]
    bonus_weight: Float[Array, ""]
    logged_q_scores: Float[Array, "N"]
    step: Int[Array, ""]


def action_distances(stats: DistanceStats, rows: Int[Array, "B"], num_neighbors: int) -> Float[Array, "B n k"]:
    """Of every action in the states of these rows to the pairs logged nearby, in radii of a neighborhood."""
    logged = stats.data_distance
    states, n = logged.data.states(rows), logged.data.action_space.n
    repeated = jnp.broadcast_to(states[:, None], (len(rows), n, *states.shape[1:]))
    embedded = logged.metric.embed_pairs(repeated, jnp.broadcast_to(jnp.eye(n), (len(rows), n, n)))
    near = logged.pairs[logged.neighbors[rows, :num_neighbors]]
    return logged.metric.pair_distance(embedded[:, :, None], near[:, None]) / stats.neighborhood_radius


def action_bonuses(
    stats: DistanceStats,
    rows: Int[Array, "B"],
    q: Float[Array, "B n"],
    logged_q_scores: Float[Array, "N"],
    config: PloffConfig,
) -> Float[Array, "B n"]:
    """b(s, ·) in the states of these rows."""
    distances = action_distances(stats, rows, config.num_neighbors)
    count, n, k = distances.shape
    weights = None
    if config.bonus in WEIGHTED:
        near = stats.data_distance.neighbors[rows, : config.num_neighbors]
        squared = stats.state_distances_sq[rows, : config.num_neighbors].astype(jnp.float32)
        weights = log_weights(logged_q_scores[near], squared, config.value_temperature, config.state_kernel)
        weights = jnp.repeat(weights, n, axis=0)
    flat = bonus(config.bonus, q.reshape(-1), distances.reshape(-1, k), config.beta, weights)
    return flat.reshape(count, n)


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: PloffConfig) -> PloffState:
    """Draws the networks; all logged pairs count alike at first."""
    critic_key, bonus_key = jax.random.split(key)
    data = dataset.data
    repeated = ActionScores.init(bonus_key, data.input_shape, data.action_space.n, config.hidden_layers)
    return PloffState(
        critic=dqn.init_critic(critic_key, dataset, config),
        value_scale=jnp.ones(()),
        bonus_weight=jnp.asarray(config.actor_bonus_weight, jnp.float32),
        bonus=TrainState.init(repeated, optax.adam(config.bonus_lr)),
        logged_q_scores=jnp.zeros(len(data)),
        step=jnp.zeros((), jnp.int32),
    )


def update(
    state: PloffState, dataset: OfflineDataset, key: PRNGKeyArray, config: PloffConfig
) -> tuple[PloffState, Info]:
    """One gradient step of the critic and of b̂, and the scale and the scores that they leave."""
    stats = dataset.distances
    if stats is None:
        raise PloffError("ploff needs distances to the data: a dataset with `DistanceStats`")

    def decide(q: Array, observations: Array, rows: Array) -> tuple[Array, Array]:
        earned = action_bonuses(stats, rows, q, state.logged_q_scores, config)
        added = config.critic_bonus_weight * state.value_scale * earned
        return q / state.value_scale + state.bonus_weight * earned, added

    state, step = dqn.update_critic(state, dataset, key, config, decide)
    earned = action_bonuses(stats, step.rows, step.q_values, state.logged_q_scores, config)
    repeated, bonus_loss, _ = state.bonus.apply_gradient(
        optax.adam(config.bonus_lr),
        lambda network: (jnp.mean(jnp.square(network(step.batch.observations) - earned)), None),
    )
    scores = standard_scores(score_of(step.q_values, step.batch.actions))
    state = dataclasses.replace(
        state,
        bonus=repeated,
        logged_q_scores=state.logged_q_scores.at[step.rows].set(scores),
        value_scale=_averaged(state.value_scale, deviation(step.q_values, step.legal), state.step),
        step=state.step + 1,
    )
    chosen = jnp.argmax(masked(policy_scores(state, step.q_values, earned), step.legal), axis=-1)
    agreed = jnp.mean(chosen == jnp.argmax(step.batch.actions, axis=-1))
    return state, dqn.step_info(step) | {"bonus_loss": bonus_loss, "agreement": agreed}


def policy_scores(state: PloffState, q: Float[Array, "B n"], earned: Float[Array, "B n"]) -> Float[Array, "B n"]:
    """Q/u + α b."""
    return q / state.value_scale + state.bonus_weight * earned


def _averaged(average: Array, now: Array, step: Array) -> Array:
    """A moving average that begins with the first value."""
    rate = jnp.maximum(SCALE_RATE, 1.0 / (step + 1.0))
    return jnp.maximum(average + rate * (now - average), LEAST)


class PloffPolicy(ChoicePolicy):
    """The legal action of the highest score."""

    critic: ActionScores
    bonus: ActionScores
    value_scale: Float[Array, ""]
    bonus_weight: Float[Array, ""]

    def scores(self, observations: Float[Array, "B *S"], legal: Legal = None) -> Float[Array, "B n"]:
        """Q/u + α b̂."""
        earned = self.bonus_weight * self.bonus(observations)
        return masked(self.critic(observations) / self.value_scale + earned, legal)


def policy(state: PloffState) -> PloffPolicy:
    """The legal action of the highest score, with b̂ for b."""
    return PloffPolicy(state.critic.params, state.bonus.params, state.value_scale, state.bonus_weight)
