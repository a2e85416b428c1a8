r"""BRAC-v (Wu, Tucker and Nachum, 2019): actor-critic with the divergence from the log's policy in the value itself.

    D(s) = mean_i [ log π(a_i|s) − log b(a_i|s) ],  a_i ∼ π(·|s)      estimates KL(π ‖ b), b a clone of the log's policy
    critic:  y = r + γ (min_j Q̄_j(s', a') − α D(s')),  a' ∼ π(·|s')
    actor:   min mean [ α D(s) − min_j Q_j(s, a) ]
    b:       min mean [ η log b(a'|s) − log b(a|s) ],  a' ∼ b, a the logged action;   η ≥ 0 holds the entropy at −A

For `warmup` steps the actor follows the divergence alone.

Shapes: n actions, B rows, A action.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.actor_critic import Twins, moved
from ploff.agents.gaussian import SquashedGaussian, hold_entropy, imitation_loss
from ploff.agents.learner import Learner, bootstrapped
from ploff.agents.log import Log
from ploff.agents.settings import OfflineConfig
from ploff.settings import counts, not_negative, positive, widths

EDGE = 1e-3  # how far inside the box actions count for the clone


@dataclasses.dataclass(frozen=True, kw_only=True)
class BRACvConfig(OfflineConfig):
    """As D4RL's authors ran it (their evaluation code): the scores that are quoted for BRAC-v are theirs."""

    hidden: tuple[int, ...] = (200, 200)  # of the policy and of the clone
    critic_hidden: tuple[int, ...] = (300, 300)
    actor_rate: float = 3e-5
    critic_rate: float = 1e-3
    clone_rate: float = 5e-4
    weight: float = 1.0  # α
    samples: int = 4  # n
    warmup: int = 20_000

    def __post_init__(self):
        super().__post_init__()
        widths(self, "critic_hidden")
        counts(self, "samples")
        positive(self, "clone_rate")
        not_negative(self, "weight", "warmup")


class BRACvState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: Learner[SquashedGaussian]
    critics: Learner[Twins]
    clone: Learner[SquashedGaussian]
    entropy_weight: Learner[Float[Array, ""]]  # η
    target_critics: Twins
    step: Int[Array, ""]


class BRACvInfo(NamedTuple):
    """What an update saw."""

    critic_loss: Array
    actor_loss: Array
    clone_loss: Array
    mean_q: Array
    largest_q: Array  # to be held against the largest reward / (1 − γ)
    divergence: Array


def init(key: PRNGKeyArray, log: Log, config: BRACvConfig) -> BRACvState:
    """Fresh networks, η = 1; the target equals the critics."""
    keys = jax.random.split(key, 3)
    shape, space = log.data.observation_shape, log.data.action_space
    critics = Twins.init(keys[1], shape, space, config.layers._replace(widths=config.critic_hidden))
    actor, clone = (SquashedGaussian.init(k, shape, space, config.layers) for k in (keys[0], keys[2]))
    return BRACvState(
        actor=Learner.init(actor, optax.adam(config.actor_rate)),
        critics=Learner.init(critics, optax.adam(config.critic_rate)),
        clone=Learner.init(clone, optax.adam(config.clone_rate)),
        entropy_weight=Learner.init(jnp.ones(()), optax.adam(config.clone_rate)),
        target_critics=critics,
        step=jnp.zeros((), jnp.int32),
    )


def update(
    state: BRACvState, log: Log, key: PRNGKeyArray, config: BRACvConfig
) -> tuple[BRACvState, BRACvInfo]:
    """One step of the clone, of the critics and of the actor."""
    draw_key, clone_key, next_key, key = jax.random.split(key, 4)
    _, batch = log.draw(draw_key, config.batch)

    def clone_loss(clone: SquashedGaussian) -> tuple[Array, Array]:
        density = jnp.mean(clone.sample(clone_key, batch.observations, 1).log_density)
        return state.entropy_weight.network * density + imitation_loss(clone, batch, EDGE), -density

    clone, imitated, entropy = state.clone.descend(optax.adam(config.clone_rate), clone_loss)
    weight = hold_entropy(state.entropy_weight, entropy, clone.network.space, config.clone_rate)
    actions, diverged = divergence(
        state.actor.network, clone.network, next_key, batch.next_observations, config.samples
    )
    value = state.target_critics.least(batch.next_observations, actions)
    wanted = bootstrapped(batch, value - config.weight * diverged, config.discount)
    critics, critic_loss, values = state.critics.descend(
        optax.adam(config.critic_rate), lambda critics: td3.critic_loss(critics, batch, wanted)
    )

    def actor_loss(actor: SquashedGaussian) -> tuple[Array, Array]:
        actions, diverged = divergence(actor, clone.network, key, batch.observations, config.samples)
        value = critics.network.least(batch.observations, actions)
        followed = jnp.where(state.step < config.warmup, 0.0, value)
        return jnp.mean(config.weight * diverged - followed), jnp.mean(diverged)

    actor, loss, mean_divergence = state.actor.descend(optax.adam(config.actor_rate), actor_loss)
    following = BRACvState(
        actor=actor,
        critics=critics,
        clone=clone,
        entropy_weight=Learner(jnp.maximum(weight.network, 0.0), weight.optimiser),
        target_critics=moved(state.target_critics, critics.network, config.target_rate),
        step=state.step + 1,
    )
    info = BRACvInfo(critic_loss, loss, imitated, jnp.mean(values), jnp.max(values), mean_divergence)
    return following, info


def divergence(
    actor: SquashedGaussian,
    clone: SquashedGaussian,
    key: PRNGKeyArray,
    observations: Float[Array, "B *S"],
    count: int,
) -> tuple[Float[Array, "B A"], Float[Array, "B"]]:
    """The first of the policy's actions a state, and D(s) by `count` of them."""
    drawn = actor.sample(key, observations, count)
    # Only the clone is asked a little inside the box, where it has seen actions. Were the policy, too, its own actions
    # at the edge would seem unlikely to it, and D would fall without end as its mean leaves the box.
    apart = drawn.log_density - clone.log_density(observations, drawn.actions, EDGE)
    return drawn.actions[0], jnp.mean(apart, axis=0)


def act(state: BRACvState, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
    """The policy's squashed mean."""
    return state.actor.network(observations)
