r"""The losses of the pseudometric (paper, section 3.4).

    L_Φ = mean ( ‖Φ(s₁,a₁) − Φ(s₂,a₂)‖ − |r₁ − r₂| − v|s₁ − s₂| − γ‖Ψ̄(s₁′) − Ψ̄(s₂′)‖ )²
    L_Ψ = mean ( ‖Ψ(s₁) − Ψ(s₂)‖ − E_{u∼ρ} ‖Φ̄(s₁,u) − Φ̄(s₂,u)‖ )²

Bars are moving averages that no gradient enters; the same u stands on both sides. After a terminal, s′ is the end: a
state of its own, which pays nothing and leads to itself, whatever is done there; one row in each half of a batch is of
it. Two estimators of the means: the
literal one, as printed, and one that shares rows and next actions between pairs, in expectation the same.

Shapes: B rows of the log, n next actions, S observation, A action, E embedding.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ploff.metric.networks import with_end
from ploff.metric.pseudometric import MetricConfig, Pseudometric, norm, root_mean_square
from ploff.transitions import Batch, Transitions

EXACT_CHOICES = 64  # up to so many discrete actions, the expectation over them is a sum, not a sample
Info = dict[str, Array]


class NextActions(NamedTuple):
    """A fixed distribution ρ over encoded actions, as equally likely draws or as weighted choices."""

    actions: Float[Array, "n A"]
    weights: Float[Array, "n"]


class MetricBatch(NamedTuple):
    """Transitions between states, of which the end is one; without an end, no row says anything of it."""

    observations: Float[Array, "B *S"]
    ended: Bool[Array, "B"] | None  # True where the state is the end, whatever stands for its observation
    actions: Float[Array, "B A"]
    rewards: Float[Array, "B"]
    next_observations: Float[Array, "B *S"]
    next_ended: Bool[Array, "B"] | None

    @classmethod
    def of(cls, batch: Batch, at_end: Bool[Array, "B"] | None) -> "MetricBatch":
        """A batch whose terminals lead to the end, and whose rows `at_end` are there already."""
        if at_end is None:
            return cls(batch.observations, None, batch.actions, batch.rewards, batch.next_observations, None)
        rewards = jnp.where(at_end, 0.0, batch.rewards)
        next_ended = at_end | batch.terminals
        return cls(batch.observations, at_end, batch.actions, rewards, batch.next_observations, next_ended)

    @property
    def flat_states(self) -> Float[Array, "B D"]:
        """States as vectors, the end with a dimension of its own: what v|s₁ − s₂| compares."""
        flat = self.observations.reshape(self.rewards.shape[0], -1)
        return flat if self.ended is None else with_end(flat, self.ended)


def half_differences(x: Float[Array, "*n B E"]) -> Float[Array, "*n B//2 B//2 E"]:
    """x_i − x_j for every i in the first half of the rows and every j in the second: B²/4 pairs from B rows.

    Rows are drawn independently, so every such pair is distributed as an independent pair of the log.
    """
    first, second = jnp.split(x, 2, axis=-2)
    return first[..., :, None, :] - second[..., None, :, :]


def phi_target(
    d_reward: Array, d_state: Array, d_next: Array, *, discount: float, state_weight: float, limit: float = math.inf
) -> Array:
    """|r₁ − r₂| + v|s₁ − s₂| + γ D̄(s₁′; s₂′), at most `limit`: one application of the operator F."""
    return jnp.minimum(d_reward + state_weight * d_state + discount * d_next, limit)


def psi_target(d_over_actions: Float[Array, "n *B"], weights: Float[Array, "n"], limit: float = math.inf) -> Array:
    """E_{u∼ρ} ‖Φ̄(s₁,u) − Φ̄(s₂,u)‖, at most `limit`."""
    return jnp.minimum(jnp.tensordot(weights, d_over_actions, axes=1), limit)


def draw_next_actions(data: Transitions, rows: Array, key: PRNGKeyArray, config: MetricConfig) -> NextActions:
    """Next actions u ∼ ρ: all of them with their probabilities where they are few choices, n draws otherwise."""
    space = data.action_space
    if space.kind == "discrete" and space.n <= EXACT_CHOICES:
        counts = jnp.ones(space.n)
        if config.next_actions == "log":
            counts = jnp.zeros(space.n).at[jnp.asarray(data.actions)].add(1.0)
        return NextActions(jnp.eye(space.n), counts / jnp.sum(counts))
    if config.next_actions == "log":
        drawn = rows[jax.random.randint(key, (config.num_next_actions,), 0, rows.shape[0])]
        actions = space.encode(jnp.asarray(data.actions)[drawn])
    else:
        actions = space.sample(key, config.num_next_actions)
    return NextActions(actions, jnp.full(config.num_next_actions, 1.0 / config.num_next_actions))


def shared_losses(
    metric: Pseudometric, target: Pseudometric, data: Transitions, rows: Array, key: PRNGKeyArray, config: MetricConfig
) -> tuple[Array, Info]:
    """L_Φ + L_Ψ over B²/4 pairs that share rows, and next actions shared by all of them."""
    row_key, action_key = jax.random.split(key)
    batch = data.batch(rows[jax.random.randint(row_key, (config.batch_size,), 0, rows.shape[0])])
    draws = draw_next_actions(data, rows, action_key, config)
    half = config.batch_size // 2
    at_end = jnp.arange(config.batch_size) % half == half - 1 if metric.has_end else None
    return shared_batch_losses(metric, target, MetricBatch.of(batch, at_end), draws, config)


def shared_batch_losses(
    metric: Pseudometric, target: Pseudometric, batch: MetricBatch, draws: NextActions, config: MetricConfig
) -> tuple[Array, Info]:
    """The losses over all pairs between the halves of a batch, with the same next actions for all.

    A row is embedded once for all of its pairs, and the first layer of Φ̄ computed once per state and once per action.
    """
    limit = 2 * metric.radius
    target_phi = phi_target(
        jnp.abs(half_differences(batch.rewards[:, None])[..., 0]),
        root_mean_square(half_differences(batch.flat_states)),
        norm(half_differences(target.embed_states(batch.next_observations, batch.next_ended))),
        discount=config.discount,
        state_weight=config.state_weight,
        limit=limit,
    )
    over_actions = norm(half_differences(target.phi_over_actions(batch.observations, draws.actions, batch.ended)))
    target_psi = psi_target(over_actions, draws.weights, limit)
    distance_phi = norm(half_differences(metric.phi(batch.observations, batch.actions, batch.ended)))
    distance_psi = norm(half_differences(metric.embed_states(batch.observations, batch.ended)))
    return _regression_losses(distance_phi, target_phi, distance_psi, target_psi, over_actions)


def literal_losses(
    metric: Pseudometric, target: Pseudometric, data: Transitions, rows: Array, key: PRNGKeyArray, config: MetricConfig
) -> tuple[Array, Info]:
    """L_Φ + L_Ψ as printed: B independent pairs, each with n next actions of its own. The slow reference."""
    key_1, key_2, action_key = jax.random.split(key, 3)
    at_end = jnp.arange(config.batch_size) == 0 if metric.has_end else None
    first, second = (
        MetricBatch.of(data.batch(rows[jax.random.randint(k, (config.batch_size,), 0, rows.shape[0])]), at)
        for k, at in ((key_1, at_end), (key_2, None if at_end is None else at_end[::-1]))
    )
    draws = jax.vmap(lambda k: draw_next_actions(data, rows, k, config))(
        jax.random.split(action_key, config.batch_size)
    )
    return literal_pair_losses(metric, target, first, second, draws, config)


def literal_pair_losses(
    metric: Pseudometric,
    target: Pseudometric,
    first: MetricBatch,
    second: MetricBatch,
    draws: NextActions,
    config: MetricConfig,
) -> tuple[Array, Info]:
    """The losses over given pairs of transitions; `draws` holds [B, n, A] actions, [B, n] weights."""
    limit = 2 * metric.radius
    next_1, next_2 = (target.embed_states(b.next_observations, b.next_ended) for b in (first, second))
    target_phi = phi_target(
        jnp.abs(first.rewards - second.rewards),
        root_mean_square(first.flat_states - second.flat_states),
        norm(next_1 - next_2),
        discount=config.discount,
        state_weight=config.state_weight,
        limit=limit,
    )

    def over_actions(batch: MetricBatch) -> Array:
        shape, ended = draws.actions.shape[:2], batch.ended
        repeated = jnp.broadcast_to(batch.observations[:, None], (*shape, *batch.observations.shape[1:]))
        return target.phi(repeated, draws.actions, None if ended is None else jnp.broadcast_to(ended[:, None], shape))

    distances = norm(over_actions(first) - over_actions(second))  # [B, n]
    target_psi = jnp.minimum(jnp.sum(distances * draws.weights, axis=-1), limit)
    phi_1, phi_2 = (metric.phi(b.observations, b.actions, b.ended) for b in (first, second))
    psi_1, psi_2 = (metric.embed_states(b.observations, b.ended) for b in (first, second))
    distance_phi, distance_psi = norm(phi_1 - phi_2), norm(psi_1 - psi_2)
    return _regression_losses(distance_phi, target_phi, distance_psi, target_psi, distances)


def _regression_losses(
    distance_phi: Array, target_phi: Array, distance_psi: Array, target_psi: Array, over_actions: Array
) -> tuple[Array, Info]:
    phi_loss = jnp.mean(jnp.square(distance_phi - jax.lax.stop_gradient(target_phi)))
    psi_loss = jnp.mean(jnp.square(distance_psi - jax.lax.stop_gradient(target_psi)))
    largest = jnp.max(jnp.stack([jnp.max(d) for d in (distance_phi, distance_psi, over_actions)]))
    info = {
        "phi_loss": phi_loss,
        "psi_loss": psi_loss,
        "mean_distance": jnp.mean(distance_phi),
        "max_distance": jax.lax.stop_gradient(largest),  # of all distances and targets, against the bound
    }
    return phi_loss + psi_loss, info
