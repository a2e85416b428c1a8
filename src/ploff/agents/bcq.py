r"""BCQ (Fujimoto, Meger and Precup, 2019): the best of actions that a model of the log proposes, each moved a little.

    proposals:  â ∼ VAE(·|s),  ξ(s, â) = clip(â + φ tanh(f(s, â)))
    critic:     y = r + γ max_i [ λ min_j Q̄_j + (1 − λ) max_j Q̄_j ](s', ξ̄(s', â_i)),   i = 1 … n
    f:          max mean Q_1(s, ξ(s, â))
    policy:     the proposal that Q_1 values most, of 100

The 100 latents are the same ones in every state, so that the policy is a function.

Shapes: n proposals, B rows, A action.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents import td3
from ploff.agents.config import ActorCriticConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.networks import Critic, DoubleCritic, HiddenLayers, ObservationNetwork
from ploff.agents.sampled_actions import NUM_CANDIDATES, best_action, soft_clipped_double_q
from ploff.agents.vae import ActionVAE, vae_loss
from ploff.training.train_state import TrainState
from ploff.utils.config import check_counts, check_not_negative, check_positive, check_sizes, check_within


@dataclasses.dataclass(frozen=True, kw_only=True)
class BCQConfig(ActorCriticConfig):
    """As published (the authors' code)."""

    batch_size: int = 100
    hidden_sizes: tuple[int, ...] = (400, 300)
    actor_lr: float = 1e-3
    critic_lr: float = 1e-3
    vae_lr: float = 1e-3
    vae_hidden_sizes: tuple[int, ...] = (750, 750)
    max_perturbation: float = 0.05  # φ, in units of half an action's range
    soft_q_lambda: float = 0.75  # λ
    num_samples: int = 10  # n

    def __post_init__(self):
        super().__post_init__()
        check_positive(self, "vae_lr")
        check_sizes(self, "vae_hidden_sizes")
        check_not_negative(self, "max_perturbation")
        check_within(self, "[0, 1]", "soft_q_lambda")
        check_counts(self, "num_samples")


class Perturbation(ObservationNetwork):
    """ξ: moves an action by at most φ."""

    max_perturbation: float = eqx.field(static=True)
    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        space: ActionSpace,
        hidden: HiddenLayers,
        max_perturbation: float,
    ) -> "Perturbation":
        """Moves actions of `space` by at most `max_perturbation`, in units of half their range."""
        fields = {"max_perturbation": max_perturbation, "space": space}
        return cls.create(key, shape, hidden, space.width, num_given=space.width, **fields)

    def __call__(self, observations: Float[Array, "B *S"], actions: Float[Array, "n B A"]) -> Float[Array, "n B A"]:
        """ξ(s, a), inside the box."""
        unit = self.space.to_unit(actions)
        change = self.max_perturbation * jnp.tanh(self.forward(observations, unit))
        return self.space.from_unit(jnp.clip(unit + change, -1.0, 1.0))


class BCQState(eqx.Module):
    """Everything that an update reads and writes."""

    vae: TrainState[ActionVAE]
    critics: TrainState[DoubleCritic]
    perturbation: TrainState[Perturbation]


def perturbation_loss(
    perturbation: Perturbation, critic: Critic, observations: Float[Array, "B *S"], proposals: Float[Array, "n B A"]
) -> Float[Array, ""]:
    """−mean Q of what the proposals are moved to."""
    return -jnp.mean(critic(observations, perturbation(observations, proposals)))


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: BCQConfig) -> BCQState:
    """Draws the networks; the targets equal them."""
    keys = jax.random.split(key, 3)
    shape, space, hidden = dataset.data.input_shape, dataset.data.action_space, config.hidden_layers
    vae = ActionVAE.init(keys[0], shape, space, hidden._replace(sizes=config.vae_hidden_sizes))
    critics = DoubleCritic.init(keys[1], shape, space, hidden)
    perturbation = Perturbation.init(keys[2], shape, space, hidden, config.max_perturbation)
    return BCQState(
        vae=TrainState.init(vae, optax.adam(config.vae_lr)),
        critics=TrainState.init(critics, optax.adam(config.critic_lr), with_target=True),
        perturbation=TrainState.init(perturbation, optax.adam(config.actor_lr), with_target=True),
    )


def update(state: BCQState, dataset: OfflineDataset, key: PRNGKeyArray, config: BCQConfig) -> tuple[BCQState, td3.Info]:
    """One step of the model, of the critics, and of the perturbation, each with what the one before has learned."""
    keys = jax.random.split(key, 4)
    _, batch = dataset.sample(keys[0], config.batch_size)
    vae, model_loss, _ = state.vae.apply_gradient(
        optax.adam(config.vae_lr), lambda vae: (vae_loss(vae, batch, keys[1]), None)
    )
    proposals = vae.params.sample(keys[2], batch.next_observations, config.num_samples)
    next_actions = state.perturbation.target(batch.next_observations, proposals)
    next_value = soft_clipped_double_q(
        state.critics.target, batch.next_observations, next_actions, config.soft_q_lambda
    )
    target = td3.bootstrapped_target(batch, next_value, config.discount)
    critics, critic_loss, q_values = state.critics.apply_gradient(
        optax.adam(config.critic_lr), lambda critics: td3.critic_loss(critics, batch, target)
    )
    proposal = vae.params.sample(keys[3], batch.observations, 1)
    perturbation, actor_loss, _ = state.perturbation.apply_gradient(
        optax.adam(config.actor_lr),
        lambda moves: (perturbation_loss(moves, critics.params.q1, batch.observations, proposal), None),
    )
    state = BCQState(vae, critics.update_target(config.tau), perturbation.update_target(config.tau))
    return state, td3.critic_info(critic_loss, q_values) | {"actor_loss": actor_loss, "vae_loss": model_loss}


class BCQPolicy(eqx.Module):
    """The best of the moved proposals."""

    vae: ActionVAE
    perturbation: Perturbation
    critic: Critic

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B A"]:
        """The proposal that Q₁ values most."""
        proposals = self.vae.sample_fixed(observations, NUM_CANDIDATES)
        return best_action(self.critic, observations, self.perturbation(observations, proposals))


def policy(state: BCQState) -> BCQPolicy:
    """The best of the moved proposals."""
    return BCQPolicy(state.vae.params, state.perturbation.params, state.critics.params.q1)
