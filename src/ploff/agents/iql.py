r"""IQL (Kostrikov, Nair and Levine, 2022): values of the log's own better actions; no other action is ever valued.

    value:   mean |τ − 1(q < V(s))| (q − V(s))²,   q = min_j Q̄_j(s, a)           the τ-expectile of q
    actor:   max mean min(e^{β (q − V(s))}, c) log π(a|s)
    critic:  Σ_j mean (Q_j(s,a) − r − γ V(s'))²

Shapes: B rows.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.config import ActorCriticConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.gaussian import TanhMeanGaussian
from ploff.agents.networks import DoubleCritic, StateValue
from ploff.training.train_state import TrainState
from ploff.transitions import Batch, RewardScale
from ploff.utils.config import check_counts, check_positive, check_within


@dataclasses.dataclass(frozen=True, kw_only=True)
class IQLConfig(ActorCriticConfig):
    """As published for locomotion (appendix, and the authors' configuration file)."""

    reward_scale: RewardScale = "return_range"  # "none" for hands
    value_lr: float = 3e-4
    expectile: float = 0.7  # τ; 0.9 in mazes
    temperature: float = 3.0  # β; 0.5 for hands
    max_weight: float = 100.0  # c
    lr_decay_steps: int = 1_000_000  # the actor's rate falls to 0 along a cosine, over the published length

    def __post_init__(self):
        super().__post_init__()
        check_within(self, "[0, 1]", "expectile")
        check_positive(self, "value_lr", "temperature", "max_weight")
        check_counts(self, "lr_decay_steps")


class IQLState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: TrainState[TanhMeanGaussian]
    critics: TrainState[DoubleCritic]
    value: TrainState[StateValue]


def expectile_loss(advantages: Float[Array, "B"], config: IQLConfig) -> Float[Array, ""]:
    """The asymmetric square of q − V."""
    weights = jnp.where(advantages < 0, 1 - config.expectile, config.expectile)
    return jnp.mean(weights * jnp.square(advantages))


def weighted_imitation_loss(actor: TanhMeanGaussian, batch: Batch, weights: Float[Array, "B"]) -> Float[Array, ""]:
    """−mean w log π(a|s)."""
    return -jnp.mean(weights * actor.log_prob(batch.observations, batch.actions))


def actor_optimizer(config: IQLConfig) -> optax.GradientTransformation:
    """Adam, at a rate that falls to 0 along a cosine."""
    return optax.adam(optax.cosine_decay_schedule(config.actor_lr, config.lr_decay_steps))


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: IQLConfig) -> IQLState:
    """Draws the networks; the target equals the critics."""
    keys = jax.random.split(key, 3)
    shape, space, hidden = dataset.data.input_shape, dataset.data.action_space, config.hidden_layers
    actor = TanhMeanGaussian.init(keys[0], shape, space, hidden)
    critics = DoubleCritic.init(keys[1], shape, space, hidden)
    return IQLState(
        actor=TrainState.init(actor, actor_optimizer(config)),
        critics=TrainState.init(critics, optax.adam(config.critic_lr), with_target=True),
        value=TrainState.init(StateValue.init(keys[2], shape, hidden), optax.adam(config.value_lr)),
    )


def update(state: IQLState, dataset: OfflineDataset, key: PRNGKeyArray, config: IQLConfig) -> tuple[IQLState, td3.Info]:
    """One step of the value, then of the actor and of the critics, which both use the new value."""
    _, batch = dataset.sample(key, config.batch_size)
    q = state.critics.target.min(batch.observations, batch.actions)
    value, value_loss, _ = state.value.apply_gradient(
        optax.adam(config.value_lr), lambda value: (expectile_loss(q - value(batch.observations), config), None)
    )
    advantages = q - value.params(batch.observations)
    weights = jnp.minimum(jnp.exp(config.temperature * advantages), config.max_weight)
    actor, actor_loss, _ = state.actor.apply_gradient(
        actor_optimizer(config), lambda actor: (weighted_imitation_loss(actor, batch, weights), None)
    )
    target = td3.bootstrapped_target(batch, value.params(batch.next_observations), config.discount)
    critics, critic_loss, q_values = state.critics.apply_gradient(
        optax.adam(config.critic_lr), lambda critics: td3.critic_loss(critics, batch, target)
    )
    info = td3.critic_info(critic_loss, q_values) | {
        "actor_loss": actor_loss,
        "value_loss": value_loss,
        "mean_weight": jnp.mean(weights),  # of a logged action in the actor's loss
    }
    return IQLState(actor, critics.update_target(config.tau), value), info


def policy(state: IQLState) -> TanhMeanGaussian:
    """π, whose call gives its mean."""
    return state.actor.params
