"""Choices among many actions per state, valued in one matrix product. Shapes: n actions, B states, A action."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ploff.agents.networks import Critic, DoubleCritic

NUM_CANDIDATES = 100  # actions that a policy which chooses among samples chooses from, as BCQ and BEAR have it


def soft_clipped_double_q(
    critics: DoubleCritic, observations: Float[Array, "B *S"], actions: Float[Array, "n B A"], soft_q_lambda: float
) -> Float[Array, "B"]:
    """The largest over samples of λ min(Q₁, Q₂) + (1 − λ) max(Q₁, Q₂): BCQ's target, and BEAR's."""
    q1, q2 = critics(observations, actions)
    mixed = soft_q_lambda * jnp.minimum(q1, q2) + (1 - soft_q_lambda) * jnp.maximum(q1, q2)
    return jnp.max(mixed, axis=0)


def best_action(
    critic: Critic, observations: Float[Array, "B *S"], actions: Float[Array, "n B A"]
) -> Float[Array, "B A"]:
    """The sample of each state that the critic values most."""
    best = jnp.argmax(critic(observations, actions), axis=0)
    return jnp.take_along_axis(actions, best[None, :, None], axis=0)[0]


def fixed_key() -> jax.Array:
    """What a policy that chooses among samples draws them with: the same in every state, so that it is a function."""
    return jax.random.key(0)
