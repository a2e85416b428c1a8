r"""BCQ for discrete actions (Fujimoto et al., 2019): the best of the actions that the log has often enough.

    G:  max mean log G(a|s) − 10⁻² |logits|²
    π(s) = argmax of Q(s, a) over the legal a with G(a|s) / max G(·|s) > τ;   y of double DQN, with a* = π(s')

Shapes: B rows, n actions.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete import dqn
from ploff.agents.discrete.dqn import DQNConfig, DQNState, Info
from ploff.agents.discrete.networks import ActionScores, ChoicePolicy, Legal, cross_entropy, masked
from ploff.training.train_state import TrainState
from ploff.transitions import Batch
from ploff.utils.config import check_not_negative, check_positive, check_within


@dataclasses.dataclass(frozen=True, kw_only=True)
class BCQConfig(DQNConfig):
    """Double DQN's, and those of the model of the log."""

    behavior_lr: float = 3e-4
    threshold: float = 0.3  # τ: 0 is double DQN, 1 cloning
    logit_penalty: float = 1e-2

    def __post_init__(self):
        super().__post_init__()
        check_positive(self, "behavior_lr")
        check_within(self, "[0, 1)", "threshold")
        check_not_negative(self, "logit_penalty")


class BCQState(DQNState):
    """The critic, and the model of what the log does."""

    behavior: TrainState[ActionScores]
    threshold: Float[Array, ""]  # τ, which the policy needs too


def usual(logits: Float[Array, "B n"], legal: Legal, threshold: float | Float[Array, ""]) -> Bool[Array, "B n"]:
    """Which legal actions are more than τ times as likely as the likeliest."""
    logits = masked(logits, legal)
    return jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True)) > threshold


def behavior_loss(behavior: ActionScores, batch: Batch, legal: Legal, config: BCQConfig) -> Float[Array, ""]:
    """Cross-entropy with the logged actions, and a pull of the logits to 0."""
    logits = behavior(batch.observations)
    return jnp.mean(cross_entropy(logits, batch.actions, legal)) + config.logit_penalty * jnp.mean(jnp.square(logits))


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: BCQConfig) -> BCQState:
    """Draws both networks."""
    critic_key, behavior_key = jax.random.split(key)
    data = dataset.data
    behavior = ActionScores.init(behavior_key, data.input_shape, data.action_space.n, config.hidden_layers)
    behavior = TrainState.init(behavior, optax.adam(config.behavior_lr))
    threshold = jnp.asarray(config.threshold, jnp.float32)
    return BCQState(critic=dqn.init_critic(critic_key, dataset, config), behavior=behavior, threshold=threshold)


def update(state: BCQState, dataset: OfflineDataset, key: PRNGKeyArray, config: BCQConfig) -> tuple[BCQState, Info]:
    """One gradient step of the critic, and one of the model on the same rows."""

    def decide(q: Array, observations: Array, rows: Array) -> tuple[Array, Array]:
        logits = state.behavior.params(observations)
        return masked(q, usual(logits, dataset.legal_actions(rows), state.threshold)), jnp.zeros_like(q)

    state, step = dqn.update_critic(state, dataset, key, config, decide)
    behavior, loss, _ = state.behavior.apply_gradient(
        optax.adam(config.behavior_lr), lambda model: (behavior_loss(model, step.batch, step.legal, config), None)
    )
    return dataclasses.replace(state, behavior=behavior), dqn.step_info(step) | {"behavior_loss": loss}


class BCQPolicy(ChoicePolicy):
    """The action of the highest value among the usual ones."""

    critic: ActionScores
    behavior: ActionScores
    threshold: Float[Array, ""]

    def scores(self, observations: Float[Array, "B *S"], legal: Legal = None) -> Float[Array, "B n"]:
        """Q(s, ·) of usual actions, −∞ of others."""
        allowed = usual(self.behavior(observations), legal, self.threshold)
        return masked(self.critic(observations), allowed)


def policy(state: BCQState) -> BCQPolicy:
    """The action of the highest value among the usual ones."""
    return BCQPolicy(state.critic.params, state.behavior.params, state.threshold)
