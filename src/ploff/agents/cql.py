r"""CQL(H) (Kumar et al., 2020): soft actor-critic whose values are pushed down everywhere, and up at logged actions.

    critic:       Σ_j mean (Q_j(s,a) − y)² + α Σ_j G_j,   y = r + γ min_j Q̄_j(s', a'),  a' ∼ π(·|s')
    gap:          G_j = mean [ T log Σ_i exp(Q_j(s, a_i)/T − log μ(a_i)) − Q_j(s, a) ]
    actor:        min mean [ η log π(a|s) − min_j Q_j(s, a) ],  a ∼ π;   η holds the entropy at −A
    with Lagrange:  α (G_j − τ) instead of α G_j, and α raised where the mean gap is above τ

a_i: n uniform actions, n of π(·|s) and n of π(·|s'), with the densities μ that they were drawn from. For `warmup`
steps the actor imitates: η log π(a|s) − log π(logged action|s).

The gap is what a step costs: 3n actions a state, through both critics and back. Two settings make it cheaper, and leave
its gradient what it is on average. Its gradient is that of Q at the a_i, weighed by their share of the sum: it may pass
through `gap_draws` actions alone that are drawn with that weight, so that the others are valued but not gone back
through. And the gap may be judged on the first `gap_states` of the batch alone: they are drawn like all of it.

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

from ploff.agents.actor_critic import Twins, moved
from ploff.agents.gaussian import SquashedGaussian, hold_entropy
from ploff.agents.learner import Learner, bootstrapped
from ploff.agents.log import Log
from ploff.agents.settings import OfflineConfig
from ploff.settings import counts, not_negative, positive
from ploff.transitions import Batch

LOG_WEIGHTS = (-20.0, math.log(1e6))  # of the multiplier


@dataclasses.dataclass(frozen=True, kw_only=True)
class CQLConfig(OfflineConfig):
    """As the authors recommend for locomotion: no Lagrange, α = 5."""

    hidden: tuple[int, ...] = (256, 256, 256)
    actor_rate: float = 1e-4
    weight: float = 5.0  # α; 10 works alike. With Lagrange it scales the gap before τ, and is 1 as published
    threshold: float | None = None  # τ, published as 5 and 10: with it, α is learned
    softness: float = 1.0  # T
    samples: int = 10  # n
    gap_states: int | None = None  # of the batch, on which the gap is judged; None: all, as published
    gap_draws: int | None = None  # actions a state that its gradient passes through; None: all, as published
    warmup: int = 40_000  # the authors found 10,000 and 20,000 alike

    def __post_init__(self):
        super().__post_init__()
        positive(self, "softness")
        counts(self, "samples")
        counts(self, *[name for name in ("gap_states", "gap_draws") if getattr(self, name) is not None])
        not_negative(self, "weight", "warmup")


class CQLState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: Learner[SquashedGaussian]
    critics: Learner[Twins]
    log_entropy_weight: Learner[Float[Array, ""]]  # log η
    log_gap_weight: Learner[Float[Array, ""]]  # log α, where it is learned
    target_critics: Twins
    step: Int[Array, ""]


class CQLInfo(NamedTuple):
    """What an update saw."""

    critic_loss: Array  # its temporal-difference part
    actor_loss: Array
    mean_q: Array
    largest_q: Array  # to be held against the largest reward / (1 − γ)
    gap: Array  # the critics' mean G
    entropy: Array
    gap_weight: Array


class Proposals(NamedTuple):
    """The a_i, and log μ of each."""

    actions: Float[Array, "3n G A"]
    log_density: Float[Array, "3n G"]


def init(key: PRNGKeyArray, log: Log, config: CQLConfig) -> CQLState:
    """Fresh networks, multipliers of 1; the target equals the critics."""
    actor_key, critic_key = jax.random.split(key)
    shape, space = log.data.observation_shape, log.data.action_space
    critics = Twins.init(critic_key, shape, space, config.layers)
    actor = SquashedGaussian.init(actor_key, shape, space, config.layers)
    return CQLState(
        actor=Learner.init(actor, optax.adam(config.actor_rate)),
        critics=Learner.init(critics, optax.adam(config.critic_rate)),
        log_entropy_weight=Learner.init(jnp.zeros(()), optax.adam(config.actor_rate)),
        log_gap_weight=Learner.init(jnp.zeros(()), optax.adam(config.critic_rate)),
        target_critics=critics,
        step=jnp.zeros((), jnp.int32),
    )


def update(state: CQLState, log: Log, key: PRNGKeyArray, config: CQLConfig) -> tuple[CQLState, CQLInfo]:
    """One step of the actor, its entropy's weight, the critics and, with Lagrange, the gap's weight."""
    draw_key, actor_key, key = jax.random.split(key, 3)
    _, batch = log.draw(draw_key, config.batch)
    propose_key, next_key, gap_key = jax.random.split(key, 3)
    proposals = propose(state.actor.network, batch, propose_key, config)
    (next_actions,) = state.actor.network.sample(next_key, batch.next_observations, 1).actions
    value = state.target_critics.least(batch.next_observations, next_actions)
    wanted = bootstrapped(batch, value, config.discount)
    gap_weight = jnp.exp(state.log_gap_weight.network) if config.threshold is not None else jnp.ones(())

    def critic_loss(critics: Twins) -> tuple[Array, tuple[Array, Array, Array]]:
        return conservative_loss(critics, batch, wanted, proposals, gap_weight, gap_key, config)

    critics, _, (error, gap, values) = state.critics.descend(optax.adam(config.critic_rate), critic_loss)
    actor, actor_loss, entropy = _actor_step(state, log, batch, actor_key, config)
    space = log.data.action_space
    following = CQLState(
        actor=actor,
        critics=critics,
        log_entropy_weight=hold_entropy(state.log_entropy_weight, entropy, space, config.actor_rate),
        log_gap_weight=raise_gap_weight(state.log_gap_weight, gap, config),
        target_critics=moved(state.target_critics, critics.network, config.target_rate),
        step=state.step + 1,
    )
    info = CQLInfo(error, actor_loss, jnp.mean(values), jnp.max(values), gap, entropy, gap_weight)
    return following, info


def propose(actor: SquashedGaussian, batch: Batch, key: PRNGKeyArray, config: CQLConfig) -> Proposals:
    """The a_i with their densities, for the states on which the gap is judged."""
    policy_key, uniform_key = jax.random.split(key)
    count, space = config.samples, actor.space
    rows = min(config.gap_states or config.batch, batch.rewards.shape[0])
    both = jnp.concatenate([batch.observations[:rows], batch.next_observations[:rows]])
    drawn = actor.sample(policy_key, both, count)
    unit = jax.random.uniform(uniform_key, (count, rows, space.width), minval=-1.0, maxval=1.0)
    actions = [space.from_unit(unit), drawn.actions[:, :rows], drawn.actions[:, rows:]]
    uniform_density = jnp.full((count, rows), -space.width * math.log(2))
    densities = [uniform_density, drawn.log_density[:, :rows], drawn.log_density[:, rows:]]
    return jax.lax.stop_gradient(Proposals(jnp.concatenate(actions), jnp.concatenate(densities)))


def conservative_loss(
    critics: Twins,
    batch: Batch,
    wanted: Float[Array, "B"],
    proposals: Proposals,
    gap_weight: Float[Array, ""],
    key: PRNGKeyArray,
    config: CQLConfig,
) -> tuple[Float[Array, ""], tuple[Array, Array, Array]]:
    """The critics' loss; then its temporal-difference part, the mean gap, and the logged actions' values."""
    rows = proposals.log_density.shape[1]
    # As a sample of its own: without that axis sums round otherwise, and the recorded runs could not be repeated.
    logged = jnp.stack(critics(batch.observations, batch.actions[None]))[:, 0]
    error = jnp.sum(jnp.mean(jnp.square(logged - wanted), axis=-1))
    soft = soft_values(critics, batch.observations[:rows], proposals, key, config)
    gaps = config.weight * jnp.mean(soft - logged[:, :rows], axis=-1)
    loss = error + gap_weight * jnp.sum(gaps - (config.threshold or 0.0))
    return loss, (error, jnp.mean(gaps), logged)


def soft_values(
    critics: Twins,
    observations: Float[Array, "G *S"],
    proposals: Proposals,
    key: PRNGKeyArray,
    config: CQLConfig,
) -> Float[Array, "2 G"]:
    """T log Σ_i exp(Q_j(s, a_i)/T − log μ(a_i)) of both critics."""
    values = jnp.stack(critics(observations, proposals.actions))
    logits = values / config.softness - proposals.log_density
    if config.gap_draws is None:
        return config.softness * jax.nn.logsumexp(logits, axis=1)
    logits = jax.lax.stop_gradient(logits)
    drawn = jax.random.categorical(key, logits, axis=1, shape=(config.gap_draws, *logits.shape[::2]))
    passed = jnp.stack(
        [
            critic(observations, jnp.take_along_axis(proposals.actions, one[..., None], axis=0))
            for critic, one in zip((critics.first, critics.second), jnp.moveaxis(drawn, 1, 0), strict=True)
        ]
    )
    passed = jnp.mean(passed, axis=1)
    # The sum's own value; the drawn actions' gradient.
    return config.softness * jax.nn.logsumexp(logits, axis=1) + passed - jax.lax.stop_gradient(passed)


def _actor_step(state: CQLState, log: Log, batch: Batch, key: PRNGKeyArray, config: CQLConfig):
    def actor_loss(actor: SquashedGaussian) -> tuple[Array, Array]:
        drawn = actor.sample(key, batch.observations, 1)
        density = drawn.log_density[0]
        value = state.critics.network.least(batch.observations, drawn.actions[0])
        imitated = actor.log_density(batch.observations, batch.actions)
        followed = jnp.where(state.step < config.warmup, imitated, value)
        entropy_weight = jnp.exp(state.log_entropy_weight.network)
        return jnp.mean(entropy_weight * density - followed), -jnp.mean(density)

    return state.actor.descend(optax.adam(config.actor_rate), actor_loss)


def raise_gap_weight(
    log_weight: Learner[Float[Array, ""]], gap: Float[Array, ""], config: CQLConfig
) -> Learner[Float[Array, ""]]:
    """With Lagrange, one step up where the gap is above its threshold, and down where it is below."""
    if config.threshold is None:
        return log_weight
    above = gap - config.threshold
    raised, _, _ = log_weight.descend(
        optax.adam(config.critic_rate), lambda weight: (-jnp.exp(weight) * above, None)
    )
    return Learner(jnp.clip(raised.network, *LOG_WEIGHTS), raised.optimiser)


def act(state: CQLState, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
    """The policy's squashed mean."""
    return state.actor.network(observations)
