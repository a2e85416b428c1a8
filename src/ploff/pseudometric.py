r"""The pseudometric d on state-action pairs, learned from a log (paper, section 3.4, and two terms past it).

    d(s₁,a₁; s₂,a₂) = ‖Φ(s₁,a₁) − Φ(s₂,a₂)‖ + w|a₁ − a₂|        D(s₁; s₂) = ‖Ψ(s₁) − Ψ(s₂)‖

    L_Φ = mean ( ‖Φ(s₁,a₁) − Φ(s₂,a₂)‖ − |r₁ − r₂| − v|s₁ − s₂| − γ‖Ψ̄(s₁′) − Ψ̄(s₂′)‖ )²
    L_Ψ = mean ( ‖Ψ(s₁) − Ψ(s₂)‖ − E_{u∼ρ} ‖Φ̄(s₁,u) − Φ̄(s₂,u)‖ )²

|·| between actions, and between states, is the root mean square over their dimensions; the paper has v = w = 0 and
ρ = U(A). Bars are moving averages that no gradient enters. The same u stands on both sides, so the term in w vanishes
under the expectation: the fixed point with it is w|a₁ − a₂| plus the fixed point without it. It is added to the learned
distance, not learned, and therefore exact.

Embeddings lie in a ball whose diameter is the largest distance there can be (`bound`), so that nothing diverges, not
even at actions that the log does not contain.

Shapes: B rows of the log, n next actions, S observation, A action, E embedding.
"""

import dataclasses
import math
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.networks import PairEncoder, StateEncoder
from ploff.transitions import ActionSpace, Batch, Transitions

EXACT_CHOICES = 64  # up to so many discrete actions, the expectation over them is a sum, not a sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricConfig:
    """How the pseudometric is defined and learned; `MetricConfig.paper()` is the printed one."""

    discount: float = 0.9  # γ of the metric
    next_actions: Literal["log", "uniform"] = "log"  # ρ
    action_weight: float = 1.0  # w, in units of the log: at 1, actions weigh as much as what is learned
    state_weight: float = 0.3  # v
    bounded: bool = True  # embeddings in a ball, targets clipped: no distance can exceed its bound
    standardise: bool = True  # observations with mean 0 and deviation 1
    hidden: int = 1024  # units of the hidden layer of Φ and of Ψ
    embedding: int = 32  # E
    state_layers: tuple[int, ...] = ()  # sizes of an encoder of the state before the joint layers
    action_layers: tuple[int, ...] = ()  # sizes of an encoder of the action before the joint layers
    estimator: Literal["shared", "literal"] = "shared"  # pairs share rows and next actions, or nothing (slow)
    rows: int = 128  # B: rows a step, one half paired with the other; the literal estimator draws B pairs
    actions: int = 4  # n: next actions a step; for the literal estimator, a pair
    learning_rate: float = 1e-3
    target_rate: float = 0.005  # of the moving averages

    def __post_init__(self):
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1), got {self.discount}")
        if min(self.action_weight, self.state_weight) < 0:
            raise ValueError(
                "action_weight and state_weight must not be negative: d would not be a pseudometric"
            )
        if min(self.rows, self.actions, self.hidden, self.embedding) < 1:
            raise ValueError("rows, actions, hidden and embedding must be at least 1")
        if self.estimator == "shared" and self.rows % 2:
            raise ValueError(f"rows must be even, one half is paired with the other; got {self.rows}")
        if not 0 < self.target_rate <= 1 or not self.learning_rate > 0:
            raise ValueError("target_rate must lie in (0, 1] and learning_rate must be positive")

    @classmethod
    def paper(cls, **changes) -> "MetricConfig":
        """The losses as printed: 256 pairs, 256 uniform actions, nothing clipped, raw observations."""
        printed = {
            "next_actions": "uniform",
            "action_weight": 0.0,
            "state_weight": 0.0,
            "bounded": False,
            "standardise": False,
            "estimator": "literal",
            "rows": 256,
            "actions": 256,
        }
        return cls(**{**printed, **changes})

    @classmethod
    def exact_operator(cls, **changes) -> "MetricConfig":
        """The fast default's learner for the paper's own operator: what exact distances can be held against."""
        own = {"next_actions": "uniform", "action_weight": 0.0, "state_weight": 0.0, "standardise": False}
        return cls(**{**own, **changes})


def norm(x: Float[Array, "*B E"]) -> Float[Array, "*B"]:
    """‖x‖₂ over the last axis, with a finite gradient (zero) where x is zero."""
    squared = jnp.sum(jnp.square(x), axis=-1)
    zero = squared == 0
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, squared)))


def root_mean_square(x: Float[Array, "*B S"]) -> Float[Array, "*B"]:
    """‖x‖₂ / √S: a length that does not grow with the number of dimensions."""
    return norm(x) / math.sqrt(x.shape[-1])


def into_ball(x: Float[Array, "*B E"], radius: float | Array) -> Float[Array, "*B E"]:
    """Maps all of space into the open ball, near its centre the identity: two images are less than 2·radius apart."""
    return x * (radius / jnp.sqrt(radius**2 + jnp.sum(jnp.square(x), axis=-1, keepdims=True)))


class Pseudometric(eqx.Module):
    """Φ and Ψ with what turns them into distances. Observations come in the units that it was trained in."""

    pair_encoder: PairEncoder
    state_encoder: StateEncoder
    radius: float = eqx.field(static=True)  # of the ball that embeddings lie in; infinite where they are free
    action_scale: tuple[float, ...] = eqx.field(static=True)  # of each action in its own term

    def embed_states(self, observations: Float[Array, "*B S"]) -> Float[Array, "*B E"]:
        """Ψ(s)."""
        return self._placed(self.state_encoder(observations))

    def embed_pairs(
        self, observations: Float[Array, "*B S"], actions: Float[Array, "*B A"]
    ) -> Float[Array, "*B E+A"]:
        """Φ(s, a), and behind it the action in the units of its own term: what `pair_distance` compares."""
        learned = self._placed(self.pair_encoder(observations, actions))
        return jnp.concatenate([learned, actions * jnp.asarray(self.action_scale)], axis=-1)

    def pair_distance(self, x: Float[Array, "*B E+A"], y: Float[Array, "*B E+A"]) -> Float[Array, "*B"]:
        """The distance d between pairs that `embed_pairs` embedded."""
        difference, width = x - y, self.pair_encoder.last.weight.shape[-1]
        return norm(difference[..., :width]) + norm(difference[..., width:])

    def state_distance(self, x: Float[Array, "*B E"], y: Float[Array, "*B E"]) -> Float[Array, "*B"]:
        """The distance D between states that `embed_states` embedded."""
        return norm(x - y)

    def phi(self, observations: Float[Array, "*B S"], actions: Float[Array, "*B A"]) -> Float[Array, "*B E"]:
        """Φ(s, a) alone: the learned part of a pair's embedding."""
        return self._placed(self.pair_encoder(observations, actions))

    def phi_over_actions(self, observations: Float[Array, "B *S"], actions: Float[Array, "n A"]) -> Array:
        """Φ(s, u) for every action and state, [n, B, E]."""
        return self._placed(self.pair_encoder.over_actions(observations, actions))

    def _placed(self, x: Array) -> Array:
        return into_ball(x, self.radius) if math.isfinite(self.radius) else x


class MetricState(eqx.Module):
    """Everything that an update reads and writes."""

    metric: Pseudometric
    target: Pseudometric
    optimiser: optax.OptState
    typical: Float[Array, ""]  # moving average of the learned distance between two logged pairs


class MetricInfo(NamedTuple):
    """What an update saw, over its pairs."""

    loss_phi: Array
    loss_psi: Array
    mean_distance: Array
    largest_distance: Array  # of all distances and targets, to be held against the bound


class NextActions(NamedTuple):
    """A fixed distribution ρ over encoded actions, as equally likely draws or as weighted choices."""

    actions: Float[Array, "n A"]
    weights: Float[Array, "n"]


def bound(data: Transitions, config: MetricConfig) -> float:
    """The largest learned distance there can be: (r_max − r_min + v · diameter of the states) / (1 − γ)."""
    rewards = np.asarray(data.rewards)
    spread = float(rewards.max() - rewards.min()) / float(data.reward_units.scale)
    if config.state_weight:
        states = np.asarray(data.observations)
        extent = (states.max(axis=0).astype(np.float64) - states.min(axis=0)) / data.observation_units.scale
        spread += config.state_weight * float(np.sqrt(np.mean(np.square(extent))))
    return spread / (1 - config.discount)


def half_differences(x: Float[Array, "*n B E"]) -> Float[Array, "*n B/2 B/2 E"]:
    """x_i − x_j for every i in the first half of the rows and every j in the second: B²/4 pairs from B rows.

    Rows are drawn independently, so every such pair is distributed as an independent pair of the log.
    """
    first, second = jnp.split(x, 2, axis=-2)
    return first[..., :, None, :] - second[..., None, :, :]


def phi_target(
    d_reward: Array,
    d_state: Array,
    d_next: Array,
    *,
    discount: float,
    state_weight: float,
    limit: float = math.inf,
) -> Array:
    """|r₁ − r₂| + v|s₁ − s₂| + γ D̄(s₁′; s₂′), at most `limit`: one application of the operator F."""
    return jnp.minimum(d_reward + state_weight * d_state + discount * d_next, limit)


def psi_target(
    d_over_actions: Float[Array, "n *B"], weights: Float[Array, "n"], limit: float = math.inf
) -> Array:
    """E_{u∼ρ} ‖Φ̄(s₁,u) − Φ̄(s₂,u)‖, at most `limit`."""
    return jnp.minimum(jnp.tensordot(weights, d_over_actions, axes=1), limit)


def typical_action_difference(data: Transitions, draws: int = 10_000, seed: int = 0) -> float:
    """The mean of |a₁ − a₂| over pairs drawn from the log, in units of half an action's range."""
    rows = np.random.default_rng(seed).integers(0, len(data), (2, draws))
    first, second = (np.asarray(data.action_space.encode(np.asarray(data.actions)[r])) for r in rows)
    apart = (first - second) / half_range(data.action_space)
    return float(np.mean(np.sqrt(np.mean(np.square(apart), axis=-1))))


def half_range(space: ActionSpace) -> Float[np.ndarray, "A"]:
    """Half the range of each dimension of an encoded action."""
    if space.kind == "discrete":
        return np.full(space.n, 0.5)
    return 0.5 * (np.asarray(space.high) - np.asarray(space.low))


def init(key: PRNGKeyArray, data: Transitions, config: MetricConfig) -> MetricState:
    """Fresh networks for a log, whose rewards and observations are in the units to be trained in."""
    return start(build(key, data.observation_shape, data.action_space, config, bound(data, config)), config)


def build(
    key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, config: MetricConfig, limit: float
) -> Pseudometric:
    """A pseudometric with random networks; `limit` is the largest distance there can be. Its w is still 0."""
    phi_key, psi_key = jax.random.split(key)
    sizes = (config.hidden, config.embedding, config.state_layers)
    return Pseudometric(
        pair_encoder=PairEncoder.init(phi_key, shape, space.width, *sizes, config.action_layers),
        state_encoder=StateEncoder.init(psi_key, shape, *sizes),
        radius=0.5 * limit if config.bounded else math.inf,
        action_scale=(0.0,) * space.width,
    )


def start(metric: Pseudometric, config: MetricConfig) -> MetricState:
    """The state before the first update: targets equal to the networks."""
    optimiser = optax.adam(config.learning_rate).init(eqx.filter(metric, eqx.is_array))
    return MetricState(metric=metric, target=metric, optimiser=optimiser, typical=jnp.zeros(()))


def finished(
    state: MetricState, space: ActionSpace, action_difference: float, config: MetricConfig
) -> Pseudometric:
    """The metric that training has reached: averaged networks, and the actions' own term.

    `action_weight` is the share of that term: at 1, it weighs as much between two logged pairs as the learned
    distance, on average. So w = action_weight · mean learned distance / mean |a₁ − a₂|, whatever the units.
    """
    w = config.action_weight * float(state.typical) / (action_difference or 1.0)
    scale = w / (half_range(space) * math.sqrt(space.width))
    return dataclasses.replace(state.target, action_scale=tuple(float(x) for x in scale))


def update(
    state: MetricState, data: Transitions, rows: Array, key: PRNGKeyArray, config: MetricConfig
) -> tuple[MetricState, MetricInfo]:
    """One gradient step on each loss, from rows of the log drawn among `rows`."""
    losses = shared_losses if config.estimator == "shared" else literal_losses
    gradient, info = eqx.filter_grad(losses, has_aux=True)(
        state.metric, state.target, data, rows, key, config
    )
    changes, optimiser = optax.adam(config.learning_rate).update(gradient, state.optimiser)
    metric = eqx.apply_updates(state.metric, changes)
    target = jax.tree.map(lambda old, new: old + config.target_rate * (new - old), state.target, metric)
    typical = state.typical + config.target_rate * (info.mean_distance - state.typical)
    return MetricState(metric=metric, target=target, optimiser=optimiser, typical=typical), info


def draw_next_actions(data: Transitions, rows: Array, key: PRNGKeyArray, config: MetricConfig) -> NextActions:
    """Next actions u ∼ ρ: all of them with their probabilities where they are few choices, n draws otherwise."""
    space = data.action_space
    if space.kind == "discrete" and space.n <= EXACT_CHOICES:
        counts = jnp.ones(space.n)
        if config.next_actions == "log":
            counts = jnp.zeros(space.n).at[jnp.asarray(data.actions)].add(1.0)
        return NextActions(jnp.eye(space.n), counts / jnp.sum(counts))
    if config.next_actions == "log":
        drawn = rows[jax.random.randint(key, (config.actions,), 0, rows.shape[0])]
        actions = space.encode(jnp.asarray(data.actions)[drawn])
    else:
        actions = space.sample(key, config.actions)
    return NextActions(actions, jnp.full(config.actions, 1.0 / config.actions))


def shared_losses(
    metric: Pseudometric,
    target: Pseudometric,
    data: Transitions,
    rows: Array,
    key: PRNGKeyArray,
    config: MetricConfig,
) -> tuple[Array, MetricInfo]:
    """L_Φ + L_Ψ over B²/4 pairs that share rows, and next actions shared by all of them."""
    row_key, action_key = jax.random.split(key)
    batch = data.batch(rows[jax.random.randint(row_key, (config.rows,), 0, rows.shape[0])])
    draws = draw_next_actions(data, rows, action_key, config)
    return shared_batch_losses(metric, target, batch, draws, config)


def shared_batch_losses(
    metric: Pseudometric, target: Pseudometric, batch: Batch, draws: NextActions, config: MetricConfig
) -> tuple[Array, MetricInfo]:
    """The losses over all pairs between the halves of a batch, with the same next actions for all.

    A row is embedded once for all of its pairs, and the first layer of Φ̄ computed once a state and once an action.
    """
    limit = 2 * metric.radius
    wanted_phi = phi_target(
        jnp.abs(half_differences(batch.rewards[:, None])[..., 0]),
        root_mean_square(half_differences(batch.observations.reshape(config.rows, -1))),
        norm(half_differences(target.embed_states(batch.next_observations))),
        discount=config.discount,
        state_weight=config.state_weight,
        limit=limit,
    )
    over_actions = norm(half_differences(target.phi_over_actions(batch.observations, draws.actions)))
    wanted_psi = psi_target(over_actions, draws.weights, limit)
    distance_phi = norm(half_differences(metric.phi(batch.observations, batch.actions)))
    distance_psi = norm(half_differences(metric.embed_states(batch.observations)))
    return _regression(distance_phi, wanted_phi, distance_psi, wanted_psi, over_actions)


def literal_losses(
    metric: Pseudometric,
    target: Pseudometric,
    data: Transitions,
    rows: Array,
    key: PRNGKeyArray,
    config: MetricConfig,
) -> tuple[Array, MetricInfo]:
    """L_Φ + L_Ψ as printed: B independent pairs, each with n next actions of its own. The slow reference."""
    key_1, key_2, action_key = jax.random.split(key, 3)
    first, second = (
        data.batch(rows[jax.random.randint(k, (config.rows,), 0, rows.shape[0])]) for k in (key_1, key_2)
    )
    draws = jax.vmap(lambda k: draw_next_actions(data, rows, k, config))(
        jax.random.split(action_key, config.rows)
    )
    return literal_pair_losses(metric, target, first, second, draws, config)


def literal_pair_losses(
    metric: Pseudometric,
    target: Pseudometric,
    first: Batch,
    second: Batch,
    draws: NextActions,
    config: MetricConfig,
) -> tuple[Array, MetricInfo]:
    """The losses over given pairs of transitions; `draws` holds [B, n, A] actions, [B, n] weights."""
    limit = 2 * metric.radius
    rows = first.rewards.shape[0]
    wanted_phi = phi_target(
        jnp.abs(first.rewards - second.rewards),
        root_mean_square((first.observations - second.observations).reshape(rows, -1)),
        norm(target.embed_states(first.next_observations) - target.embed_states(second.next_observations)),
        discount=config.discount,
        state_weight=config.state_weight,
        limit=limit,
    )

    def over_actions(observations: Array) -> Array:
        repeated = jnp.broadcast_to(
            observations[:, None], (*draws.actions.shape[:2], *observations.shape[1:])
        )
        return target.phi(repeated, draws.actions)

    distances = norm(over_actions(first.observations) - over_actions(second.observations))  # [B, n]
    wanted_psi = jnp.minimum(jnp.sum(distances * draws.weights, axis=-1), limit)
    distance_phi = norm(
        metric.phi(first.observations, first.actions) - metric.phi(second.observations, second.actions)
    )
    distance_psi = norm(metric.embed_states(first.observations) - metric.embed_states(second.observations))
    return _regression(distance_phi, wanted_phi, distance_psi, wanted_psi, distances)


def _regression(
    distance_phi: Array, wanted_phi: Array, distance_psi: Array, wanted_psi: Array, over_actions: Array
) -> tuple[Array, MetricInfo]:
    loss_phi = jnp.mean(jnp.square(distance_phi - jax.lax.stop_gradient(wanted_phi)))
    loss_psi = jnp.mean(jnp.square(distance_psi - jax.lax.stop_gradient(wanted_psi)))
    largest = jnp.max(jnp.stack([jnp.max(d) for d in (distance_phi, distance_psi, over_actions)]))
    info = MetricInfo(loss_phi, loss_psi, jnp.mean(distance_phi), jax.lax.stop_gradient(largest))
    return loss_phi + loss_psi, info
