r"""BCQ (Fujimoto, Meger and Precup, 2019): the best of actions that a model of the log proposes, each moved a little.

    proposals:  â ∼ VAE(·|s),  ξ(s, â) = clip(â + φ tanh(f(s, â)))
    critic:     y = r + γ max_i [ λ min_j Q̄_j + (1 − λ) max_j Q̄_j ](s', ξ̄(s', â_i)),   i = 1 … n
    f:          max mean Q_1(s, ξ(s, â))
    policy:     the proposal that Q_1 values most, of 100

The 100 latents are the same ones in every state, so that the policy is a function.

Shapes: n proposals, B rows, A action.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents import td3
from ploff.agents.actor_critic import Critic, Layers, Network, Twins, moved
from ploff.agents.learner import Learner, bootstrapped
from ploff.agents.log import Log
from ploff.agents.sampled import CANDIDATES, best_of, most_mixed_value
from ploff.agents.settings import OfflineConfig
from ploff.agents.vae import ActionVAE, vae_loss
from ploff.settings import counts, not_negative, positive, widths, within


@dataclasses.dataclass(frozen=True, kw_only=True)
class BCQConfig(OfflineConfig):
    """As published (the authors' code)."""

    batch: int = 100
    hidden: tuple[int, ...] = (400, 300)
    actor_rate: float = 1e-3
    critic_rate: float = 1e-3
    vae_rate: float = 1e-3
    vae_hidden: tuple[int, ...] = (750, 750)
    perturbation: float = 0.05  # φ, in units of half an action's range
    smaller_share: float = 0.75  # λ
    samples: int = 10  # n

    def __post_init__(self):
        super().__post_init__()
        positive(self, "vae_rate")
        widths(self, "vae_hidden")
        not_negative(self, "perturbation")
        within(self, "[0, 1]", "smaller_share")
        counts(self, "samples")


class Perturbation(Network):
    """ξ: moves an action by at most φ."""

    reach: float = eqx.field(static=True)
    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        shape: tuple[int, ...],
        space: ActionSpace,
        hidden: Layers,
        reach: float,
    ) -> "Perturbation":
        """Moves actions of `space` by at most `reach`, in units of half their range."""
        return cls.fresh(key, shape, hidden, space.width, given=space.width, reach=reach, space=space)

    def __call__(
        self, observations: Float[Array, "B *S"], actions: Float[Array, "n B A"]
    ) -> Float[Array, "n B A"]:
        """ξ(s, a), inside the box."""
        unit = self.space.to_unit(actions)
        change = self.reach * jnp.tanh(self.outputs(observations, unit))
        return self.space.from_unit(jnp.clip(unit + change, -1.0, 1.0))


class BCQState(eqx.Module):
    """Everything that an update reads and writes."""

    vae: Learner[ActionVAE]
    critics: Learner[Twins]
    perturbation: Learner[Perturbation]
    target_critics: Twins
    target_perturbation: Perturbation


class BCQInfo(NamedTuple):
    """What an update saw."""

    critic_loss: Array
    actor_loss: Array
    vae_loss: Array
    mean_q: Array
    largest_q: Array  # to be held against the largest reward / (1 − γ)


def init(key: PRNGKeyArray, log: Log, config: BCQConfig) -> BCQState:
    """Fresh networks; the targets equal them."""
    keys = jax.random.split(key, 3)
    shape, space = log.data.observation_shape, log.data.action_space
    critics = Twins.init(keys[1], shape, space, config.layers)
    perturbation = Perturbation.init(keys[2], shape, space, config.layers, config.perturbation)
    vae = ActionVAE.init(keys[0], shape, space, config.layers._replace(widths=config.vae_hidden))
    return BCQState(
        vae=Learner.init(vae, optax.adam(config.vae_rate)),
        critics=Learner.init(critics, optax.adam(config.critic_rate)),
        perturbation=Learner.init(perturbation, optax.adam(config.actor_rate)),
        target_critics=critics,
        target_perturbation=perturbation,
    )


def update(state: BCQState, log: Log, key: PRNGKeyArray, config: BCQConfig) -> tuple[BCQState, BCQInfo]:
    """One step of the model, of the critics, and of the perturbation, each with what the one before has learned."""
    keys = jax.random.split(key, 4)
    _, batch = log.draw(keys[0], config.batch)
    vae, model_loss, _ = state.vae.descend(
        optax.adam(config.vae_rate), lambda vae: (vae_loss(vae, batch, keys[1]), None)
    )
    proposed = vae.network.sample(keys[2], batch.next_observations, config.samples)
    moved_there = state.target_perturbation(batch.next_observations, proposed)
    following_value = most_mixed_value(
        state.target_critics, batch.next_observations, moved_there, config.smaller_share
    )
    wanted = bootstrapped(batch, following_value, config.discount)
    critics, critic_loss, values = state.critics.descend(
        optax.adam(config.critic_rate), lambda critics: td3.critic_loss(critics, batch, wanted)
    )
    proposal = vae.network.sample(keys[3], batch.observations, 1)
    perturbation, actor_loss, _ = state.perturbation.descend(
        optax.adam(config.actor_rate),
        lambda moves: (perturbation_loss(moves, critics.network.first, batch.observations, proposal), None),
    )
    following = BCQState(
        vae=vae,
        critics=critics,
        perturbation=perturbation,
        target_critics=moved(state.target_critics, critics.network, config.target_rate),
        target_perturbation=moved(state.target_perturbation, perturbation.network, config.target_rate),
    )
    return following, BCQInfo(critic_loss, actor_loss, model_loss, jnp.mean(values), jnp.max(values))


def perturbation_loss(
    perturbation: Perturbation,
    critic: Critic,
    observations: Float[Array, "B *S"],
    proposals: Float[Array, "n B A"],
) -> Float[Array, ""]:
    """−mean Q of what the proposals are moved to."""
    return -jnp.mean(critic(observations, perturbation(observations, proposals)))


def act(state: BCQState, observations: Float[Array, "B *S"]) -> Float[Array, "B A"]:
    """The best of the proposals."""
    proposals = state.vae.network.propose(observations, CANDIDATES)
    candidates = state.perturbation.network(observations, proposals)
    return best_of(state.critics.network.first, observations, candidates)
