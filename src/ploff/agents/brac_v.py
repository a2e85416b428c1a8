r"""BRAC-v (Wu, Tucker and Nachum, 2019): actor-critic with the divergence from the log's policy in the value itself.

    D(s) = mean_i [ log π(a_i|s) − log b(a_i|s) ],  a_i ∼ π(·|s)      estimates KL(π ‖ b), b a clone of the log's policy
    critic:  y = r + γ (min_j Q̄_j(s', a') − α D(s')),  a' ∼ π(·|s')
    actor:   min mean [ α D(s) − min_j Q_j(s, a) ]
    b:       min mean [ η log b(a'|s) − log b(a|s) ],  a' ∼ b, a the logged action;   η ≥ 0 holds the entropy at −A

For `warmup_steps` the actor follows the divergence alone.

Shapes: n actions, B rows, A action.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.config import ActorCriticConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.gaussian import SquashedGaussian, imitation_loss, update_temperature
from ploff.agents.networks import DoubleCritic
from ploff.training.train_state import TrainState
from ploff.utils.config import check_counts, check_not_negative, check_positive, check_sizes

MARGIN = 1e-3  # how far inside the box actions count for the clone


@dataclasses.dataclass(frozen=True, kw_only=True)
class BRACvConfig(ActorCriticConfig):
    """As D4RL's authors ran it (their evaluation code): the scores that are quoted for BRAC-v are theirs."""

    hidden_sizes: tuple[int, ...] = (200, 200)  # of the policy and of the clone
    critic_hidden_sizes: tuple[int, ...] = (300, 300)
    actor_lr: float = 3e-5
    critic_lr: float = 1e-3
    behavior_lr: float = 5e-4
    alpha: float = 1.0  # α
    num_samples: int = 4  # n
    warmup_steps: int = 20_000

    def __post_init__(self):
        super().__post_init__()
        check_sizes(self, "critic_hidden_sizes")
        check_counts(self, "num_samples")
        check_positive(self, "behavior_lr")
        check_not_negative(self, "alpha", "warmup_steps")


class BRACvState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: TrainState[SquashedGaussian]
    critics: TrainState[DoubleCritic]
    behavior: TrainState[SquashedGaussian]
    temperature: TrainState[Float[Array, ""]]  # η
    step: Int[Array, ""]


def kl_divergence(
    actor: SquashedGaussian,
    behavior: SquashedGaussian,
    key: PRNGKeyArray,
    observations: Float[Array, "B *S"],
    num_samples: int,
) -> tuple[Float[Array, "B A"], Float[Array, "B"]]:
    """The first of the policy's sampled actions per state, and D(s) from all of them."""
    samples = actor.sample(key, observations, num_samples)
    # Only the clone is asked a little inside the box, where it has seen actions. Were the policy, too, its own actions
    # at the edge would seem unlikely to it, and D would fall without end as its mean leaves the box.
    log_ratio = samples.log_prob - behavior.log_prob(observations, samples.actions, MARGIN)
    return samples.actions[0], jnp.mean(log_ratio, axis=0)


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: BRACvConfig) -> BRACvState:
    """Draws the networks, η = 1; the target equals the critics."""
    keys = jax.random.split(key, 3)
    shape, space, hidden = dataset.data.input_shape, dataset.data.action_space, config.hidden_layers
    critics = DoubleCritic.init(keys[1], shape, space, hidden._replace(sizes=config.critic_hidden_sizes))
    actor, behavior = (SquashedGaussian.init(k, shape, space, hidden) for k in (keys[0], keys[2]))
    return BRACvState(
        actor=TrainState.init(actor, optax.adam(config.actor_lr)),
        critics=TrainState.init(critics, optax.adam(config.critic_lr), with_target=True),
        behavior=TrainState.init(behavior, optax.adam(config.behavior_lr)),
        temperature=TrainState.init(jnp.ones(()), optax.adam(config.behavior_lr)),
        step=jnp.zeros((), jnp.int32),
    )


def update(
    state: BRACvState, dataset: OfflineDataset, key: PRNGKeyArray, config: BRACvConfig
) -> tuple[BRACvState, td3.Info]:
    """One step of the clone, of the critics and of the actor."""
    sample_key, behavior_key, next_key, key = jax.random.split(key, 4)
    _, batch = dataset.sample(sample_key, config.batch_size)

    def behavior_loss(behavior: SquashedGaussian) -> tuple[Array, Array]:
        log_prob = jnp.mean(behavior.sample(behavior_key, batch.observations, 1).log_prob)
        return state.temperature.params * log_prob + imitation_loss(behavior, batch, MARGIN), -log_prob

    behavior, clone_loss, entropy = state.behavior.apply_gradient(optax.adam(config.behavior_lr), behavior_loss)
    space = dataset.data.action_space
    temperature = update_temperature(state.temperature, entropy, space, config.behavior_lr)
    actions, divergence = kl_divergence(
        state.actor.params, behavior.params, next_key, batch.next_observations, config.num_samples
    )
    value = state.critics.target.min(batch.next_observations, actions)
    target = td3.bootstrapped_target(batch, value - config.alpha * divergence, config.discount)
    critics, critic_loss, q_values = state.critics.apply_gradient(
        optax.adam(config.critic_lr), lambda critics: td3.critic_loss(critics, batch, target)
    )

    def actor_loss(actor: SquashedGaussian) -> tuple[Array, Array]:
        actions, divergence = kl_divergence(actor, behavior.params, key, batch.observations, config.num_samples)
        q = jnp.where(state.step < config.warmup_steps, 0.0, critics.params.min(batch.observations, actions))
        return jnp.mean(config.alpha * divergence - q), jnp.mean(divergence)

    actor, loss, mean_divergence = state.actor.apply_gradient(optax.adam(config.actor_lr), actor_loss)
    info = td3.critic_info(critic_loss, q_values) | {
        "actor_loss": loss,
        "behavior_loss": clone_loss,
        "kl_divergence": mean_divergence,
    }
    not_negative = dataclasses.replace(temperature, params=jnp.maximum(temperature.params, 0.0))
    critics = critics.update_target(config.tau)
    return BRACvState(actor, critics, behavior, not_negative, state.step + 1), info


def policy(state: BRACvState) -> SquashedGaussian:
    """π, whose call gives its squashed mean."""
    return state.actor.params
