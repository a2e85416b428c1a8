r"""IQL for discrete actions (Kostrikov, Nair and Levine, 2022): values of the log's own better actions.

    value:   mean |τ − 1(q < V(s))| (q − V(s))²,   q = Q̄(s, a)
    actor:   max mean min(e^{β (q − V(s)) / u}, c) log π(a|s)
    critic:  mean (Q(s,a) − r − γ V(s'))²

u is the batch's deviation of q − V: with it, β means the same whatever the rewards are.

Shapes: B rows, n actions.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete import dqn
from ploff.agents.discrete.dqn import DQNConfig, DQNState, Info
from ploff.agents.discrete.networks import ActionScores, SoftmaxPolicy, cross_entropy, score_of
from ploff.agents.networks import StateValue
from ploff.agents.td3 import bootstrapped_target, critic_info
from ploff.training.train_state import TrainState
from ploff.utils.config import check_positive, check_within


@dataclasses.dataclass(frozen=True, kw_only=True)
class IQLConfig(DQNConfig):
    """Double DQN's, and those of the value and the actor."""

    value_lr: float = 3e-4
    actor_lr: float = 3e-4
    expectile: float = 0.7  # τ
    temperature: float = 3.0  # β
    max_weight: float = 100.0  # c

    def __post_init__(self):
        super().__post_init__()
        check_within(self, "[0, 1]", "expectile")
        check_positive(self, "value_lr", "actor_lr", "temperature", "max_weight")


class IQLState(DQNState):
    """The critic, the value and the actor."""

    value: TrainState[StateValue]
    actor: TrainState[ActionScores]


def expectile_loss(advantages: Float[Array, "B"], expectile: float) -> Float[Array, ""]:
    """The asymmetric square of q − V."""
    return jnp.mean(jnp.where(advantages < 0, 1 - expectile, expectile) * jnp.square(advantages))


def imitation_weights(advantages: Float[Array, "B"], config: IQLConfig) -> Float[Array, "B"]:
    """What a logged action counts for in the actor's loss."""
    unit = jnp.maximum(jnp.std(advantages), 1e-6)
    return jnp.minimum(jnp.exp(config.temperature * advantages / unit), config.max_weight)


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: IQLConfig) -> IQLState:
    """Draws the networks."""
    keys, data, hidden = jax.random.split(key, 3), dataset.data, config.hidden_layers
    actor = ActionScores.init(keys[1], data.input_shape, data.action_space.n, hidden)
    value = StateValue.init(keys[2], data.input_shape, hidden)
    return IQLState(
        critic=dqn.init_critic(keys[0], dataset, config),
        value=TrainState.init(value, optax.adam(config.value_lr)),
        actor=TrainState.init(actor, optax.adam(config.actor_lr)),
    )


def update(state: IQLState, dataset: OfflineDataset, key: PRNGKeyArray, config: IQLConfig) -> tuple[IQLState, Info]:
    """One step of the value, then of the actor and of the critic, which both use the new value."""
    rows, batch = dataset.sample(key, config.batch_size)
    legal = dataset.legal_actions(rows)
    q = score_of(state.critic.target(batch.observations), batch.actions)
    value, value_loss, _ = state.value.apply_gradient(
        optax.adam(config.value_lr),
        lambda value: (expectile_loss(q - value(batch.observations), config.expectile), None),
    )
    weights = imitation_weights(q - value.params(batch.observations), config)
    actor, actor_loss, _ = state.actor.apply_gradient(
        optax.adam(config.actor_lr),
        lambda actor: (jnp.mean(weights * cross_entropy(actor(batch.observations), batch.actions, legal)), None),
    )
    target = bootstrapped_target(batch, value.params(batch.next_observations), config.discount)

    def critic_loss(critic: ActionScores) -> tuple[Array, Array]:
        values = score_of(critic(batch.observations), batch.actions)
        return jnp.mean(jnp.square(values - target)), values

    critic, loss, q_values = state.critic.apply_gradient(optax.adam(config.critic_lr), critic_loss)
    info = critic_info(loss, q_values) | {"actor_loss": actor_loss, "value_loss": value_loss}
    return IQLState(critic=critic.update_target(config.tau), value=value, actor=actor), info


def policy(state: IQLState) -> SoftmaxPolicy:
    """π, whose call gives the likeliest action."""
    return SoftmaxPolicy(state.actor.params)
