r"""The losses of the pseudometric (paper, section 3.4).

    L_Φ = mean ( ‖Φ(s₁,a₁) − Φ(s₂,a₂)‖ − |r₁ − r₂| − v|s₁ − s₂| − γ‖Ψ̄(s₁′) − Ψ̄(s₂′)‖ )²
    L_Ψ = mean ( ‖Ψ(s₁) − Ψ(s₂)‖ − E_{u∼ρ} ‖Φ̄(s₁,u) − Φ̄(s₂,u)‖ )²

Bars are moving averages that no gradient enters; the same u stands on both sides. Two estimators of the means: the
literal one, as printed, and one that shares rows and next actions between pairs, in expectation the same.

Shapes: B rows of the log, n next actions, S observation, A action, E embedding.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.metric.pseudometric import MetricConfig, Pseudometric, norm, root_mean_square
from ploff.transitions import Batch, Transitions

EXACT_CHOICES = 64  # up to so many discrete actions, the expectation over them is a sum, not a sample
Info = dict[str, Array]


class NextActions(NamedTuple):
    """A fixed distribution ρ over encoded actions, as equally likely draws or as weighted choices."""

    actions: Float[Array, "n A"]
    weights: Float[Array, "n"]


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
    return shared_batch_losses(metric, target, batch, draws, config)


def shared_batch_losses(
    metric: Pseudometric, target: Pseudometric, batch: Batch, draws: NextActions, config: MetricConfig
) -> tuple[Array, Info]:
    """The losses over all pairs between the halves of a batch, with the same next actions for all.

    A row is embedded once for all of its pairs, and the first layer of Φ̄ computed once per state and once per action.
    """
    limit = 2 * metric.radius
    target_phi = phi_target(
        jnp.abs(half_differences(batch.rewards[:, None])[..., 0]),
        root_mean_square(half_differences(batch.observations.reshape(config.batch_size, -1))),
        norm(half_differences(target.embed_states(batch.next_observations))),
        discount=config.discount,
        state_weight=config.state_weight,
        limit=limit,
    )
    over_actions = norm(half_differences(target.phi_over_actions(batch.observations, draws.actions)))
    target_psi = psi_target(over_actions, draws.weights, limit)
    distance_phi = norm(half_differences(metric.phi(batch.observations, batch.actions)))
    distance_psi = norm(half_differences(metric.embed_states(batch.observations)))
    return _regression_losses(distance_phi, target_phi, distance_psi, target_psi, over_actions)


def literal_losses(
    metric: Pseudometric, target: Pseudometric, data: Transitions, rows: Array, key: PRNGKeyArray, config: MetricConfig
) -> tuple[Array, Info]:
    """L_Φ + L_Ψ as printed: B independent pairs, each with n next actions of its own. The slow reference."""
    key_1, key_2, action_key = jax.random.split(key, 3)
    first, second = (
        data.batch(rows[jax.random.randint(k, (config.batch_size,), 0, rows.shape[0])]) for k in (key_1, key_2)
    )
    draws = jax.vmap(lambda k: draw_next_actions(data, rows, k, config))(
        jax.random.split(action_key, config.batch_size)
    )
    return literal_pair_losses(metric, target, first, second, draws, config)


def literal_pair_losses(
    metric: Pseudometric, target: Pseudometric, first: Batch, second: Batch, draws: NextActions, config: MetricConfig
) -> tuple[Array, Info]:
    """The losses over given pairs of transitions; `draws` holds [B, n, A] actions, [B, n] weights."""
    limit = 2 * metric.radius
    rows = first.rewards.shape[0]
    target_phi = phi_target(
        jnp.abs(first.rewards - second.rewards),
        root_mean_square((first.observations - second.observations).reshape(rows, -1)),
        norm(target.embed_states(first.next_observations) - target.embed_states(second.next_observations)),
        discount=config.discount,
        state_weight=config.state_weight,
        limit=limit,
    )

    def over_actions(observations: Array) -> Array:
        repeated = jnp.broadcast_to(observations[:, None], (*draws.actions.shape[:2], *observations.shape[1:]))
        return target.phi(repeated, draws.actions)

    distances = norm(over_actions(first.observations) - over_actions(second.observations))  # [B, n]
    target_psi = jnp.minimum(jnp.sum(distances * draws.weights, axis=-1), limit)
    distance_phi = norm(metric.phi(first.observations, first.actions) - metric.phi(second.observations, second.actions))
    distance_psi = norm(metric.embed_states(first.observations) - metric.embed_states(second.observations))
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
