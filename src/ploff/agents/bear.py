r"""BEAR (Kumar et al., 2019): the support of the policy is held to that of the log, by samples of both.

    actor:       min mean [ −min_j Q_j(s, a) + α (MMD(π(·|s), b(·|s)) − ε) ],   a ∼ π,   b a model of the logged actions
    multiplier:  max over log α in [−5, 10] of α (mean MMD − ε)
    critic:      y = r + γ max_i [ λ min_j Q̄_j + (1 − λ) max_j Q̄_j ](s', a_i),   a_i ∼ π(·|s')
    MMD² = mean k(x, x') + mean k(y, y') − 2 mean k(x, y),   k = e^{−‖x − y‖² / 2σ} or e^{−‖x − y‖₁ / 2σ}

b is a VAE or a squashed Gaussian, learned beside the policy. The MMD is between actions before tanh. For `warmup_steps`
the actor has no value to follow. The policy takes the action that Q_1 values most, of 100 from the same noise in every
state.

Shapes: n, m samples, B rows, A action.
"""

import dataclasses
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents import td3
from ploff.agents.config import ActorCriticConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.gaussian import SquashedGaussian, imitation_loss
from ploff.agents.networks import Critic, DoubleCritic
from ploff.agents.sampled_actions import NUM_CANDIDATES, best_action, fixed_key, soft_clipped_double_q
from ploff.agents.vae import ActionVAE, vae_loss
from ploff.training.train_state import TrainState
from ploff.transitions import Batch
from ploff.utils.config import check_counts, check_not_negative, check_positive, check_sizes, check_within

LOG_MULTIPLIER_BOUNDS = (-5.0, 10.0)
Kernel = Literal["gaussian", "laplacian"]
BehaviorModel = ActionVAE | SquashedGaussian


@dataclasses.dataclass(frozen=True, kw_only=True)
class BEARConfig(ActorCriticConfig):
    """As D4RL's authors ran it (their evaluation code): the scores that are quoted for BEAR are theirs."""

    actor_lr: float = 1e-4
    behavior_model: Literal["vae", "gaussian"] = "vae"  # b
    behavior_lr: float = 3e-4
    behavior_hidden_sizes: tuple[int, ...] = (750, 750)
    lagrange_lr: float = 1e-3
    mmd_kernel: Kernel = "gaussian"
    mmd_sigma: float = 50.0  # σ; 20 in their README for Hopper, Walker and half-cheetah
    mmd_threshold: float = 0.05  # ε
    num_mmd_samples: int = 4  # of policy and of model
    num_samples: int = 10  # n of the target
    soft_q_lambda: float = 0.75  # λ
    warmup_steps: int = 40_000

    def __post_init__(self):
        super().__post_init__()
        check_positive(self, "behavior_lr", "lagrange_lr", "mmd_sigma")
        check_not_negative(self, "mmd_threshold", "warmup_steps")
        check_counts(self, "num_mmd_samples", "num_samples")
        check_sizes(self, "behavior_hidden_sizes")
        check_within(self, "[0, 1]", "soft_q_lambda")


class BEARState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: TrainState[SquashedGaussian]
    critics: TrainState[DoubleCritic]
    behavior: TrainState[BehaviorModel]
    log_multiplier: TrainState[Float[Array, ""]]  # log α
    step: Int[Array, ""]


def mmd(x: Float[Array, "n B A"], y: Float[Array, "m B A"], kernel: Kernel, sigma: float) -> Float[Array, "B"]:
    """MMD between two sets of actions per state; a little is added under the root, whose slope at 0 is infinite."""
    size = jnp.square if kernel == "gaussian" else jnp.abs

    def mean_kernel(x: Array, y: Array) -> Array:
        distances = jnp.sum(size(x[:, None] - y[None]), axis=-1)
        return jnp.mean(jnp.exp(-distances / (2 * sigma)), axis=(0, 1))

    return jnp.sqrt(jnp.maximum(mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y), 0.0) + 1e-6)


def behavior_loss(model: BehaviorModel, batch: Batch, key: PRNGKeyArray) -> Float[Array, ""]:
    """The loss of the model of the logged actions."""
    return vae_loss(model, batch, key) if isinstance(model, ActionVAE) else imitation_loss(model, batch)


def update_multiplier(
    log_multiplier: TrainState[Float[Array, ""]], mean_mmd: Float[Array, ""], config: BEARConfig
) -> TrainState[Float[Array, ""]]:
    """One step up where the MMD is above its threshold, down where it is below, within the bounds."""
    updated, _, _ = log_multiplier.apply_gradient(
        optax.adam(config.lagrange_lr), lambda m: (-jnp.exp(m) * (mean_mmd - config.mmd_threshold), None)
    )
    return dataclasses.replace(updated, params=jnp.clip(updated.params, *LOG_MULTIPLIER_BOUNDS))


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: BEARConfig) -> BEARState:
    """Draws the networks, a multiplier of 1; the target equals the critics."""
    keys = jax.random.split(key, 3)
    shape, space, hidden = dataset.data.input_shape, dataset.data.action_space, config.hidden_layers
    actor = SquashedGaussian.init(keys[0], shape, space, hidden)
    critics = DoubleCritic.init(keys[1], shape, space, hidden)
    model = ActionVAE if config.behavior_model == "vae" else SquashedGaussian
    behavior = model.init(keys[2], shape, space, hidden._replace(sizes=config.behavior_hidden_sizes))
    return BEARState(
        actor=TrainState.init(actor, optax.adam(config.actor_lr)),
        critics=TrainState.init(critics, optax.adam(config.critic_lr), with_target=True),
        behavior=TrainState.init(behavior, optax.adam(config.behavior_lr)),
        log_multiplier=TrainState.init(jnp.zeros(()), optax.adam(config.lagrange_lr)),
        step=jnp.zeros((), jnp.int32),
    )


def update(
    state: BEARState, dataset: OfflineDataset, key: PRNGKeyArray, config: BEARConfig
) -> tuple[BEARState, td3.Info]:
    """One step of the model, of the critics, of the actor and of the multiplier."""
    keys = jax.random.split(key, 5)
    _, batch = dataset.sample(keys[0], config.batch_size)
    behavior, model_loss, _ = state.behavior.apply_gradient(
        optax.adam(config.behavior_lr), lambda model: (behavior_loss(model, batch, keys[1]), None)
    )
    next_actions = state.actor.params.sample(keys[2], batch.next_observations, config.num_samples).actions
    next_value = soft_clipped_double_q(
        state.critics.target, batch.next_observations, next_actions, config.soft_q_lambda
    )
    target = td3.bootstrapped_target(batch, next_value, config.discount)
    critics, critic_loss, q_values = state.critics.apply_gradient(
        optax.adam(config.critic_lr), lambda critics: td3.critic_loss(critics, batch, target)
    )
    modeled = behavior.params.sample_raw(keys[3], batch.observations, config.num_mmd_samples)

    def actor_loss(actor: SquashedGaussian) -> tuple[Array, Array]:
        samples = actor.sample(keys[4], batch.observations, config.num_mmd_samples)
        mean_mmd = jnp.mean(mmd(samples.raw, modeled, config.mmd_kernel, config.mmd_sigma))
        q = jnp.mean(state.critics.params.min(batch.observations, samples.actions[0]))
        multiplier = jnp.exp(state.log_multiplier.params)
        q = jnp.where(state.step < config.warmup_steps, 0.0, q)
        return multiplier * (mean_mmd - config.mmd_threshold) - q, mean_mmd

    actor, loss, mean_mmd = state.actor.apply_gradient(optax.adam(config.actor_lr), actor_loss)
    log_multiplier = update_multiplier(state.log_multiplier, mean_mmd, config)
    info = td3.critic_info(critic_loss, q_values) | {
        "actor_loss": loss,
        "behavior_loss": model_loss,
        "mmd": mean_mmd,  # to be held against ε
        "lagrange_multiplier": jnp.exp(log_multiplier.params),
    }
    critics = critics.update_target(config.tau)
    return BEARState(actor, critics, behavior, log_multiplier, state.step + 1), info


class BEARPolicy(eqx.Module):
    """The best of the policy's samples."""

    actor: SquashedGaussian
    critic: Critic

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B A"]:
        """The sample that Q₁ values most."""
        noise = jax.random.normal(fixed_key(), (NUM_CANDIDATES, 1, self.actor.space.width))
        samples = self.actor.actions_from_noise(observations, noise)
        return best_action(self.critic, observations, samples.actions)


def policy(state: BEARState) -> BEARPolicy:
    """The best of the policy's samples."""
    return BEARPolicy(state.actor.params, state.critics.params.q1)
