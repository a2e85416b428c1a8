r"""CQL(H) (Kumar et al., 2020): soft actor-critic whose values are pushed down everywhere, and up at logged actions.

    critic:       Σ_j mean (Q_j(s,a) − y)² + α Σ_j G_j,   y = r + γ min_j Q̄_j(s', a'),  a' ∼ π(·|s')
    gap:          G_j = mean [ T log Σ_i exp(Q_j(s, a_i)/T − log μ(a_i)) − Q_j(s, a) ]
    actor:        min mean [ η log π(a|s) − min_j Q_j(s, a) ],  a ∼ π;   η holds the entropy at −A
    with Lagrange:  α (G_j − τ) instead of α G_j, and α raised where the mean gap is above τ

a_i: n uniform actions, n of π(·|s) and n of π(·|s'), with the densities μ that they were drawn from. For `warmup_steps`
the actor imitates: η log π(a|s) − log π(logged action|s).

The gap is what a step costs: 3n actions per state, through both critics and back. Two settings make it cheaper, and
leave its gradient what it is on average. Its gradient is that of Q at the a_i, weighed by their share of the sum: it
may pass through `num_gradient_actions` alone that are drawn with that weight, so that the others are evaluated without
backpropagation. And the gap may be computed on the first `gap_batch_size` states of the batch alone: they are drawn
like all of it.

Shapes: n actions of each kind, B rows, G of them with a gap, A action.
"""

import dataclasses
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.config import ActorCriticConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.gaussian import SquashedGaussian, update_temperature
from ploff.agents.networks import DoubleCritic
from ploff.training.train_state import TrainState
from ploff.transitions import Batch
from ploff.utils.config import check_counts, check_not_negative, check_positive

LOG_ALPHA_BOUNDS = (-20.0, math.log(1e6))  # of the multiplier


@dataclasses.dataclass(frozen=True, kw_only=True)
class CQLConfig(ActorCriticConfig):
    """As the authors recommend for locomotion: no Lagrange, α = 5."""

    hidden_sizes: tuple[int, ...] = (256, 256, 256)
    actor_lr: float = 1e-4
    cql_alpha: float = 5.0  # α; 10 works alike. With Lagrange it scales the gap before τ, and is 1 as published
    lagrange_threshold: float | None = None  # τ, published as 5 and 10: with it, α is learned
    cql_temperature: float = 1.0  # T
    num_samples: int = 10  # n
    gap_batch_size: int | None = None  # states of the batch with a gap; None: all, as published
    num_gradient_actions: int | None = None  # actions per state in its gradient; None: all, as published
    warmup_steps: int = 40_000  # the authors found 10,000 and 20,000 alike

    def __post_init__(self):
        super().__post_init__()
        check_positive(self, "cql_temperature")
        check_counts(self, "num_samples")
        optional = ("gap_batch_size", "num_gradient_actions")
        check_counts(self, *[name for name in optional if getattr(self, name) is not None])
        check_not_negative(self, "cql_alpha", "warmup_steps")


class CQLState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: TrainState[SquashedGaussian]
    critics: TrainState[DoubleCritic]
    log_temperature: TrainState[Float[Array, ""]]  # log η
    log_alpha: TrainState[Float[Array, ""]]  # log α, where it is learned
    step: Int[Array, ""]


class GapActions(NamedTuple):
    """The a_i, and log μ of each."""

    actions: Float[Array, "3n G A"]
    log_prob: Float[Array, "3n G"]


def sample_gap_actions(actor: SquashedGaussian, batch: Batch, key: PRNGKeyArray, config: CQLConfig) -> GapActions:
    """The a_i with their densities, for the states that the gap is computed on."""
    policy_key, uniform_key = jax.random.split(key)
    count, space = config.num_samples, actor.space
    rows = min(config.gap_batch_size or config.batch_size, batch.rewards.shape[0])
    both = jnp.concatenate([batch.observations[:rows], batch.next_observations[:rows]])
    samples = actor.sample(policy_key, both, count)
    unit = jax.random.uniform(uniform_key, (count, rows, space.width), minval=-1.0, maxval=1.0)
    actions = [space.from_unit(unit), samples.actions[:, :rows], samples.actions[:, rows:]]
    uniform_log_prob = jnp.full((count, rows), -space.width * math.log(2))
    log_probs = [uniform_log_prob, samples.log_prob[:, :rows], samples.log_prob[:, rows:]]
    return jax.lax.stop_gradient(GapActions(jnp.concatenate(actions), jnp.concatenate(log_probs)))


def conservative_loss(
    critics: DoubleCritic,
    batch: Batch,
    target: Float[Array, "B"],
    gap_actions: GapActions,
    alpha: Float[Array, ""],
    key: PRNGKeyArray,
    config: CQLConfig,
) -> tuple[Float[Array, ""], tuple[Array, Array, Array]]:
    """The critics' loss; then its temporal-difference part, the mean gap, and the logged actions' values."""
    rows = gap_actions.log_prob.shape[1]
    # As a sample of its own: without that axis sums round otherwise, and the recorded runs could not be repeated.
    logged = jnp.stack(critics(batch.observations, batch.actions[None]))[:, 0]
    td_loss = jnp.sum(jnp.mean(jnp.square(logged - target), axis=-1))
    soft = soft_values(critics, batch.observations[:rows], gap_actions, key, config)
    gaps = config.cql_alpha * jnp.mean(soft - logged[:, :rows], axis=-1)
    loss = td_loss + alpha * jnp.sum(gaps - (config.lagrange_threshold or 0.0))
    return loss, (td_loss, jnp.mean(gaps), logged)


def soft_values(
    critics: DoubleCritic,
    observations: Float[Array, "G *S"],
    gap_actions: GapActions,
    key: PRNGKeyArray,
    config: CQLConfig,
) -> Float[Array, "2 G"]:
    """T log Σ_i exp(Q_j(s, a_i)/T − log μ(a_i)) of both critics."""
    q_values = jnp.stack(critics(observations, gap_actions.actions))
    logits = q_values / config.cql_temperature - gap_actions.log_prob
    if config.num_gradient_actions is None:
        return config.cql_temperature * jax.nn.logsumexp(logits, axis=1)
    logits = jax.lax.stop_gradient(logits)
    shape = (config.num_gradient_actions, *logits.shape[::2])
    drawn = jax.random.categorical(key, logits, axis=1, shape=shape)
    passed = jnp.stack(
        [
            critic(observations, jnp.take_along_axis(gap_actions.actions, one[..., None], axis=0))
            for critic, one in zip((critics.q1, critics.q2), jnp.moveaxis(drawn, 1, 0), strict=True)
        ]
    )
    passed = jnp.mean(passed, axis=1)
    # The sum's own value; the drawn actions' gradient.
    return config.cql_temperature * jax.nn.logsumexp(logits, axis=1) + passed - jax.lax.stop_gradient(passed)


def actor_loss(
    actor: SquashedGaussian, state: CQLState, batch: Batch, key: PRNGKeyArray, config: CQLConfig
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The actor's loss, and its entropy."""
    samples = actor.sample(key, batch.observations, 1)
    log_prob = samples.log_prob[0]
    q = state.critics.params.min(batch.observations, samples.actions[0])
    imitated = actor.log_prob(batch.observations, batch.actions)
    followed = jnp.where(state.step < config.warmup_steps, imitated, q)
    temperature = jnp.exp(state.log_temperature.params)
    return jnp.mean(temperature * log_prob - followed), -jnp.mean(log_prob)


def update_alpha(
    log_alpha: TrainState[Float[Array, ""]], gap: Float[Array, ""], config: CQLConfig
) -> TrainState[Float[Array, ""]]:
    """With Lagrange, one step up where the gap is above its threshold, and down where it is below."""
    if config.lagrange_threshold is None:
        return log_alpha
    above = gap - config.lagrange_threshold
    updated, _, _ = log_alpha.apply_gradient(
        optax.adam(config.critic_lr), lambda log_alpha: (-jnp.exp(log_alpha) * above, None)
    )
    return dataclasses.replace(updated, params=jnp.clip(updated.params, *LOG_ALPHA_BOUNDS))


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: CQLConfig) -> CQLState:
    """Draws the networks, multipliers of 1; the target equals the critics."""
    actor_key, critic_key = jax.random.split(key)
    shape, space, hidden = dataset.data.input_shape, dataset.data.action_space, config.hidden_layers
    critics = DoubleCritic.init(critic_key, shape, space, hidden)
    actor = SquashedGaussian.init(actor_key, shape, space, hidden)
    return CQLState(
        actor=TrainState.init(actor, optax.adam(config.actor_lr)),
        critics=TrainState.init(critics, optax.adam(config.critic_lr), with_target=True),
        log_temperature=TrainState.init(jnp.zeros(()), optax.adam(config.actor_lr)),
        log_alpha=TrainState.init(jnp.zeros(()), optax.adam(config.critic_lr)),
        step=jnp.zeros((), jnp.int32),
    )


def update(state: CQLState, dataset: OfflineDataset, key: PRNGKeyArray, config: CQLConfig) -> tuple[CQLState, td3.Info]:
    """One step of the actor, its entropy's weight, the critics and, with Lagrange, the gap's weight."""
    sample_key, actor_key, key = jax.random.split(key, 3)
    _, batch = dataset.sample(sample_key, config.batch_size)
    actions_key, next_key, gap_key = jax.random.split(key, 3)
    gap_actions = sample_gap_actions(state.actor.params, batch, actions_key, config)
    (next_actions,) = state.actor.params.sample(next_key, batch.next_observations, 1).actions
    next_value = state.critics.target.min(batch.next_observations, next_actions)
    target = td3.bootstrapped_target(batch, next_value, config.discount)
    learned = config.lagrange_threshold is not None
    alpha = jnp.exp(state.log_alpha.params) if learned else jnp.ones(())
    critics, _, (td_loss, gap, q_values) = state.critics.apply_gradient(
        optax.adam(config.critic_lr),
        lambda critics: conservative_loss(critics, batch, target, gap_actions, alpha, gap_key, config),
    )
    actor, loss, entropy = state.actor.apply_gradient(
        optax.adam(config.actor_lr), lambda actor: actor_loss(actor, state, batch, actor_key, config)
    )
    space = dataset.data.action_space
    info = td3.critic_info(td_loss, q_values) | {
        "actor_loss": loss,
        "cql_gap": gap,  # the critics' mean G
        "entropy": entropy,
        "cql_alpha": alpha,
    }
    state = CQLState(
        actor=actor,
        critics=critics.update_target(config.tau),
        log_temperature=update_temperature(state.log_temperature, entropy, space, config.actor_lr),
        log_alpha=update_alpha(state.log_alpha, gap, config),
        step=state.step + 1,
    )
    return state, info


def policy(state: CQLState) -> SquashedGaussian:
    """π, whose call gives its squashed mean."""
    return state.actor.params
