"""Choices among many actions a state, valued in one matrix product. Shapes: n actions, B states, A action."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ploff.agents.actor_critic import Critic, Twins

CANDIDATES = 100  # actions that a policy which chooses among samples chooses from, as BCQ and BEAR have it


def most_mixed_value(
    critics: Twins, observations: Float[Array, "B *S"], actions: Float[Array, "n B A"], share: float
) -> Float[Array, "B"]:
    """The largest over samples of λ min(Q₁, Q₂) + (1 − λ) max(Q₁, Q₂): BCQ's target, and BEAR's."""
    first, second = critics(observations, actions)
    mixed = share * jnp.minimum(first, second) + (1 - share) * jnp.maximum(first, second)
    return jnp.max(mixed, axis=0)


def best_of(
    critic: Critic, observations: Float[Array, "B *S"], actions: Float[Array, "n B A"]
) -> Float[Array, "B A"]:
    """The sample of each state that the critic values most."""
    best = jnp.argmax(critic(observations, actions), axis=0)
    return jnp.take_along_axis(actions, best[None, :, None], axis=0)[0]


def fixed_key() -> jax.Array:
    """What a policy that chooses among samples draws them with: the same in every state, so that it is a function."""
    return jax.random.key(0)
