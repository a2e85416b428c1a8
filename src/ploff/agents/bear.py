r"""BEAR (Kumar et al., 2019): the support of the policy is held to that of the log, by samples of both.

    actor:       min mean [ −min_j Q_j(s, a) + α (MMD(π(·|s), b(·|s)) − ε) ],   a ∼ π,   b a model of the logged actions
    multiplier:  max over log α in [−5, 10] of α (mean MMD − ε)
    critic:      y = r + γ max_i [ λ min_j Q̄_j + (1 − λ) max_j Q̄_j ](s', a_i),   a_i ∼ π(·|s')
    MMD² = mean k(x, x') + mean k(y, y') − 2 mean k(x, y),   k = e^{−‖x − y‖² / 2σ} or e^{−‖x − y‖₁ / 2σ}

b is a VAE or a squashed Gaussian, learned beside the policy. The MMD is between actions before tanh. For `warmup` steps
the actor has no value to follow. The policy takes the action that Q_1 values most, of 100 from the same noise in every
state.

Shapes: n, m samples, B rows, A action.
"""

import dataclasses
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.actor_critic import Twins, moved
from ploff.agents.gaussian import SquashedGaussian, imitation_loss
from ploff.agents.learner import Learner, bootstrapped
from ploff.agents.log import Log
from ploff.agents.sampled import CANDIDATES, best_of, fixed_key, most_mixed_value
from ploff.agents.settings import OfflineConfig
from ploff.agents.vae import ActionVAE, vae_loss
from ploff.settings import counts, not_negative, positive, widths, within
from ploff.transitions import Batch

LOG_MULTIPLIERS = (-5.0, 10.0)
Kernel = Literal["gaussian", "laplacian"]
Behaviour = ActionVAE | SquashedGaussian


@dataclasses.dataclass(frozen=True, kw_only=True)
class BEARConfig(OfflineConfig):
    """As D4RL's authors ran it (their evaluation code): the scores that are quoted for BEAR are theirs."""

    actor_rate: float = 1e-4
    behaviour: Literal["vae", "gaussian"] = "vae"  # b
    behaviour_rate: float = 3e-4
    behaviour_hidden: tuple[int, ...] = (750, 750)
    multiplier_rate: float = 1e-3
    kernel: Kernel = "gaussian"
    bandwidth: float = 50.0  # σ; 20 in their README for Hopper, Walker and half-cheetah
    threshold: float = 0.05  # ε
    matched_samples: int = 4  # of policy and of model in the MMD
    samples: int = 10  # n of the target
    smaller_share: float = 0.75  # λ
    warmup: int = 40_000

    def __post_init__(self):
        super().__post_init__()
        positive(self, "behaviour_rate", "multiplier_rate", "bandwidth")
        not_negative(self, "threshold", "warmup")
        counts(self, "matched_samples", "samples")
        widths(self, "behaviour_hidden")
        within(self, "[0, 1]", "smaller_share")


class BEARState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: Learner[SquashedGaussian]
    critics: Learner[Twins]
    behaviour: Learner[Behaviour]
    log_multiplier: Learner[Float[Array, ""]]
    target_critics: Twins
    step: Int[Array, ""]


class BEARInfo(NamedTuple):
    """What an update saw."""

    critic_loss: Array
    actor_loss: Array
    behaviour_loss: Array
    mean_q: Array
    largest_q: Array  # to be held against the largest reward / (1 − γ)
    discrepancy: Array  # the mean MMD, to be held against ε
    multiplier: Array


def init(key: PRNGKeyArray, log: Log, config: BEARConfig) -> BEARState:
    """Fresh networks, a multiplier of 1; the target equals the critics."""
    keys = jax.random.split(key, 3)
    shape, space = log.data.observation_shape, log.data.action_space
    actor = SquashedGaussian.init(keys[0], shape, space, config.layers)
    critics = Twins.init(keys[1], shape, space, config.layers)
    model = ActionVAE if config.behaviour == "vae" else SquashedGaussian
    behaviour = model.init(keys[2], shape, space, config.layers._replace(widths=config.behaviour_hidden))
    return BEARState(
        actor=Learner.init(actor, optax.adam(config.actor_rate)),
        critics=Learner.init(critics, optax.adam(config.critic_rate)),
        behaviour=Learner.init(behaviour, optax.adam(config.behaviour_rate)),
        log_multiplier=Learner.init(jnp.zeros(()), optax.adam(config.multiplier_rate)),
        target_critics=critics,
        step=jnp.zeros((), jnp.int32),
    )


def update(state: BEARState, log: Log, key: PRNGKeyArray, config: BEARConfig) -> tuple[BEARState, BEARInfo]:
    """One step of the model, of the critics, of the actor and of the multiplier."""
    keys = jax.random.split(key, 5)
    _, batch = log.draw(keys[0], config.batch)
    behaviour, model_loss, _ = state.behaviour.descend(
        optax.adam(config.behaviour_rate), lambda model: (behaviour_loss(model, batch, keys[1]), None)
    )
    proposed = state.actor.network.sample(keys[2], batch.next_observations, config.samples).actions
    best = most_mixed_value(state.target_critics, batch.next_observations, proposed, config.smaller_share)
    wanted = bootstrapped(batch, best, config.discount)
    critics, critic_loss, values = state.critics.descend(
        optax.adam(config.critic_rate), lambda critics: td3.critic_loss(critics, batch, wanted)
    )
    modelled = behaviour.network.sample_raw(keys[3], batch.observations, config.matched_samples)

    def actor_loss(actor: SquashedGaussian) -> tuple[Array, Array]:
        drawn = actor.sample(keys[4], batch.observations, config.matched_samples)
        apart = jnp.mean(discrepancy(drawn.raw, modelled, config.kernel, config.bandwidth))
        value = jnp.mean(state.critics.network.least(batch.observations, drawn.actions[0]))
        multiplier = jnp.exp(state.log_multiplier.network)
        followed = jnp.where(state.step < config.warmup, 0.0, value)
        return multiplier * (apart - config.threshold) - followed, apart

    actor, loss, apart = state.actor.descend(optax.adam(config.actor_rate), actor_loss)
    raised = raise_multiplier(state.log_multiplier, apart, config)
    following = BEARState(
        actor=actor,
        critics=critics,
        behaviour=behaviour,
        log_multiplier=raised,
        target_critics=moved(state.target_critics, critics.network, config.target_rate),
        step=state.step + 1,
    )
    info = BEARInfo(
        critic_loss, loss, model_loss, jnp.mean(values), jnp.max(values), apart, jnp.exp(raised.network)
    )
    return following, info


def behaviour_loss(model: Behaviour, batch: Batch, key: PRNGKeyArray) -> Float[Array, ""]:
    """What the model of the logged actions is learned by."""
    return vae_loss(model, batch, key) if isinstance(model, ActionVAE) else imitation_loss(model, batch)


def raise_multiplier(
    log_multiplier: Learner[Float[Array, ""]], apart: Float[Array, ""], config: BEARConfig
) -> Learner[Float[Array, ""]]:
    """One step up where the discrepancy is above its threshold, down where it is below, within the limits."""
    raised, _, _ = log_multiplier.descend(
        optax.adam(config.multiplier_rate), lambda m: (-jnp.exp(m) * (apart - config.threshold), None)
    )
    return Learner(jnp.clip(raised.network, *LOG_MULTIPLIERS), raised.optimiser)


def discrepancy(
    x: Float[Array, "n B A"], y: Float[Array, "m B A"], kernel: Kernel, bandwidth: float
) -> Float[Array, "B"]:
    """MMD between two sets of actions a state; a little is added under the root, whose slope at 0 is infinite."""
    size = jnp.square if kernel == "gaussian" else jnp.abs

    def likeness(x: Array, y: Array) -> Array:
        apart = jnp.sum(size(x[:, None] - y[None]), axis=-1)
        return jnp.mean(jnp.exp(-apart / (2 * bandwidth)), axis=(0, 1))

    return jnp.sqrt(jnp.maximum(likeness(x, x) + likeness(y, y) - 2 * likeness(x, y), 0.0) + 1e-6)


def act(state: BEARState, observations: Float[Array, "B *S"]) -> Float[Array, "B A"]:
    """The best of the policy's samples."""
    noise = jax.random.normal(fixed_key(), (CANDIDATES, 1, state.actor.network.space.width))
    return best_of(
        state.critics.network.first, observations, state.actor.network.at(observations, noise).actions
    )
