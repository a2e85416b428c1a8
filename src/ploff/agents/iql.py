r"""IQL (Kostrikov, Nair and Levine, 2022): values of the log's own better actions; no other action is ever valued.

    value:   mean |τ − 1(q < V(s))| (q − V(s))²,   q = min_j Q̄_j(s, a)           the τ-expectile of q
    actor:   max mean min(e^{β (q − V(s))}, c) log π(a|s)
    critic:  Σ_j mean (Q_j(s,a) − r − γ V(s'))²

Shapes: B rows.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.actor_critic import Twins, moved
from ploff.agents.gaussian import BoundedGaussian
from ploff.agents.learner import Learner, StateValue, bootstrapped
from ploff.agents.log import Log
from ploff.agents.settings import OfflineConfig
from ploff.settings import counts, positive, within
from ploff.transitions import Batch, RewardScale


@dataclasses.dataclass(frozen=True, kw_only=True)
class IQLConfig(OfflineConfig):
    """As published for locomotion (appendix, and the authors' configuration file)."""

    rewards: RewardScale = "returns"  # "own" for hands
    value_rate: float = 3e-4
    expectile: float = 0.7  # τ; 0.9 in mazes
    temperature: float = 3.0  # β; 0.5 for hands
    largest_weight: float = 100.0  # c
    decay_steps: int = 1_000_000  # the actor's rate falls to 0 along a cosine, over the published length

    def __post_init__(self):
        super().__post_init__()
        within(self, "[0, 1]", "expectile")
        positive(self, "value_rate", "temperature", "largest_weight")
        counts(self, "decay_steps")


class IQLState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: Learner[BoundedGaussian]
    critics: Learner[Twins]
    value: Learner[StateValue]
    target_critics: Twins


class IQLInfo(NamedTuple):
    """What an update saw."""

    critic_loss: Array
    actor_loss: Array
    value_loss: Array
    mean_q: Array
    largest_q: Array  # to be held against the largest reward / (1 − γ)
    weight: Array  # of a logged action in the actor's loss, on average


def init(key: PRNGKeyArray, log: Log, config: IQLConfig) -> IQLState:
    """Fresh networks; the target equals the critics."""
    keys = jax.random.split(key, 3)
    shape, space = log.data.observation_shape, log.data.action_space
    critics = Twins.init(keys[1], shape, space, config.layers)
    return IQLState(
        actor=Learner.init(BoundedGaussian.init(keys[0], shape, space, config.layers), actor_method(config)),
        critics=Learner.init(critics, optax.adam(config.critic_rate)),
        value=Learner.init(StateValue.init(keys[2], shape, config.layers), optax.adam(config.value_rate)),
        target_critics=critics,
    )


def update(state: IQLState, log: Log, key: PRNGKeyArray, config: IQLConfig) -> tuple[IQLState, IQLInfo]:
    """One step of the value, then of the actor and of the critics, which both use the new value."""
    _, batch = log.draw(key, config.batch)
    q = state.target_critics.least(batch.observations, batch.actions)
    value, value_loss, _ = state.value.descend(
        optax.adam(config.value_rate), lambda v: (expectile_loss(q - v(batch.observations), config), None)
    )
    advantages = q - value.network(batch.observations)
    weights = jnp.minimum(jnp.exp(config.temperature * advantages), config.largest_weight)
    actor, actor_loss, _ = state.actor.descend(
        actor_method(config), lambda actor: (weighted_imitation(actor, batch, weights), None)
    )
    wanted = bootstrapped(batch, value.network(batch.next_observations), config.discount)
    critics, critic_loss, values = state.critics.descend(
        optax.adam(config.critic_rate), lambda critics: td3.critic_loss(critics, batch, wanted)
    )
    following = IQLState(
        actor=actor,
        critics=critics,
        value=value,
        target_critics=moved(state.target_critics, critics.network, config.target_rate),
    )
    info = IQLInfo(
        critic_loss, actor_loss, value_loss, jnp.mean(values), jnp.max(values), weight=jnp.mean(weights)
    )
    return following, info


def expectile_loss(above: Float[Array, "B"], config: IQLConfig) -> Float[Array, ""]:
    """The asymmetric square of what q has above V."""
    return jnp.mean(jnp.where(above < 0, 1 - config.expectile, config.expectile) * jnp.square(above))


def weighted_imitation(actor: BoundedGaussian, batch: Batch, weights: Float[Array, "B"]) -> Float[Array, ""]:
    """−mean w log π(a|s)."""
    return -jnp.mean(weights * actor.log_density(batch.observations, batch.actions))


def act(state: IQLState, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
    """The policy's mean."""
    return state.actor.network(observations)


def actor_method(config: IQLConfig) -> optax.GradientTransformation:
    """Adam, at a rate that falls to 0 along a cosine."""
    return optax.adam(optax.cosine_decay_schedule(config.actor_rate, config.decay_steps))
