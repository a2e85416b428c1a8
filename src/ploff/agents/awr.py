r"""AWR (Peng et al., 2019): imitation of the log, each action weighted by how well it went.

Round after round, over the whole log:

    returns:  G_t = r_t + γ ((1 − λ) V(s_{t+1}) + λ G_{t+1}); r_t + γ V(s_{t+1}) where the log was cut, r_t at an end
    critic:   `critic_steps` steps on ½ mean (V(s) − G)²
    weights:  w = min(e^{A/β}, c),  A = G − V(s) with mean 0 and deviation 1, returns and values taken anew
    actor:    `actor_steps` steps on mean [ w |μ(s) − a|² / 2σ² + ½ κ |what μ(s) is outside the box|² ]

One update is one of these steps. The first term is −log of a normal density with a fixed deviation. The network gives
V (1 − γ), which is as large as a reward.

Shapes: B rows, N transitions, M states, S observation, A action.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents.config import NetworkConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.networks import HiddenLayers, Network, ObservationNetwork, StateValue
from ploff.networks import Linear
from ploff.training.train_state import TrainState
from ploff.transitions import UNKNOWN, Batch, RewardScale, Transitions
from ploff.utils.config import check_counts, check_not_negative, check_positive, check_within

BLOCK = 8_192  # states evaluated at a time
INITIAL_ACTIONS = 0.01  # limit of the actor's last weights at the start


@dataclasses.dataclass(frozen=True, kw_only=True)
class AWRConfig(NetworkConfig):
    """As the authors' code has it for tasks that it does not name, among them all of D4RL's."""

    discount: float = 0.99  # γ
    reward_scale: RewardScale = "none"
    hidden_sizes: tuple[int, ...] = (128, 64)
    actor_lr: float = 5e-5  # of stochastic gradients with momentum
    critic_lr: float = 1e-2
    momentum: float = 0.9
    critic_steps: int = 500
    actor_steps: int = 1000
    lam: float = 0.95  # λ
    temperature: float = 1.0  # β, in deviations of the advantages
    max_weight: float = 20.0  # c
    action_std: float = 0.2  # σ, in units of half an action's range
    bound_loss_weight: float = 10.0  # κ

    def __post_init__(self):
        super().__post_init__()
        check_within(self, "[0, 1)", "discount", "momentum")
        check_within(self, "[0, 1]", "lam")
        check_counts(self, "critic_steps", "actor_steps")
        check_positive(self, "actor_lr", "critic_lr", "temperature", "max_weight", "action_std")
        check_not_negative(self, "bound_loss_weight")


class UnboundedActor(ObservationNetwork):
    """μ in units of half an action's range. Nothing but its loss holds it inside the box; a call clips it."""

    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(
        cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: HiddenLayers
    ) -> "UnboundedActor":
        """Nearly 0 in every state."""
        return glorot_rescale(cls.create(key, shape, hidden, space.width, space=space), INITIAL_ACTIONS)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "B A"]:
        """The mean, inside the box."""
        return self.space.from_unit(jnp.clip(self.forward(observations), -1.0, 1.0))


class AWRState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: TrainState[UnboundedActor]
    value: TrainState[StateValue]
    returns: Float[Array, "N"]  # G of this round
    weights: Float[Array, "N"]  # w of this round
    step: Int[Array, ""]


def value_loss(value: StateValue, batch: Batch, returns: Float[Array, "B"], config: AWRConfig) -> Float[Array, ""]:
    """½ mean (V − G)², in units of 1/(1 − γ)."""
    return 0.5 * jnp.mean(jnp.square(value(batch.observations) - (1 - config.discount) * returns))


def weighted_imitation_loss(
    actor: UnboundedActor, batch: Batch, weights: Float[Array, "B"], config: AWRConfig
) -> Float[Array, ""]:
    """Mean of w |μ(s) − a|² / 2σ², and of the square that μ(s) is outside the box by."""
    mean = actor.forward(batch.observations)
    imitation = jnp.sum(jnp.square(mean - actor.space.to_unit(batch.actions)), axis=-1)
    outside = jnp.sum(jnp.square(mean - jnp.clip(mean, -1.0, 1.0)), axis=-1)
    penalty = 0.5 * config.bound_loss_weight * outside
    return jnp.mean(weights * imitation / (2 * config.action_std**2) + penalty)


def glorot_rescale(network: Network, last: float | None = None) -> Network:
    """Weights uniform in ±√(6/(in + out)), as the authors start them, those of the last layer in ±`last` if given.

    Plain gradients keep the size that weights give them, and with it the speed of learning.
    """

    def rescale(layer: Linear, limit: float | None = None) -> Linear:
        inputs, outputs = layer.weight.shape
        reach = (6 / (inputs + outputs)) ** 0.5 if limit is None else limit
        return eqx.tree_at(lambda one: one.weight, layer, layer.weight * reach * inputs**0.5)

    *hidden, final = network.mlp.layers
    layers = (*map(rescale, hidden), rescale(final, last))
    return eqx.tree_at(lambda one: one.mlp.layers, network, layers)


def returns_and_weights(
    value: StateValue, dataset: OfflineDataset, config: AWRConfig
) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
    """G and w of every logged action, under the value as it is."""
    values = state_values(value, dataset.data) / (1 - config.discount)
    returns = lambda_returns(dataset.data, values, config.discount, config.lam)
    advantages = returns - values[: len(dataset.data)]
    learned_from = advantages[dataset.rows]
    standardized = (advantages - jnp.mean(learned_from)) / (jnp.std(learned_from) + 1e-5)
    return returns, jnp.minimum(jnp.exp(standardized / config.temperature), config.max_weight)


def state_values(value: StateValue, data: Transitions) -> Float[Array, "M"]:
    """The network's value of every state of the log, block by block."""
    count = data.num_states
    size = min(BLOCK, count)
    blocks = -(-count // size)
    rows = jnp.minimum(jnp.arange(blocks * size), count - 1).reshape(blocks, size)
    return jax.lax.map(lambda block: value(data.states(block)), rows).reshape(-1)[:count]


def lambda_returns(
    data: Transitions, values: Float[Array, "M"], discount: float, lam: float | Array
) -> Float[Array, "N"]:
    """G, by the recurrence G_t = a_t + b_t G_{t+1} for all t at once.

    A row whose successor the log does not tell stands for its own value: it is bootstrapped from, never learned from.
    """
    rewards = data.reward_normalizer.normalize(jnp.asarray(data.rewards))
    terminals, goes_on = jnp.asarray(data.terminals), next_row_continues(data)
    successors = jnp.asarray(data.successors)
    known = successors != UNKNOWN
    next_values = jnp.where(terminals | ~known, 0.0, values[jnp.where(known, successors, 0)])
    value_share = jnp.where(goes_on, 1 - lam, 1.0)
    constant = rewards + discount * value_share * next_values
    constant = jnp.where(known | terminals, constant, values[: len(data)])
    factor = jnp.where(goes_on, discount * lam, 0.0)

    def compose(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    returns, _ = jax.lax.associative_scan(compose, (constant, factor), reverse=True)
    return returns


def next_row_continues(data: Transitions) -> Bool[Array, "N"]:
    """Whether the next row of the log goes on where this one ends."""
    ended = jnp.asarray(data.terminals) | jnp.asarray(data.timeouts)
    return (
        ~ended
        & (jnp.asarray(data.successors) == jnp.arange(1, len(data) + 1))
        & (jnp.arange(len(data)) < len(data) - 1)
    )


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: AWRConfig) -> AWRState:
    """Draws the networks; the first update starts a round."""
    actor_key, value_key = jax.random.split(key)
    shape, count = dataset.data.input_shape, len(dataset.data)
    actor = UnboundedActor.init(actor_key, shape, dataset.data.action_space, config.hidden_layers)
    value = glorot_rescale(StateValue.init(value_key, shape, config.hidden_layers))
    return AWRState(
        actor=TrainState.init(actor, optax.sgd(config.actor_lr, config.momentum)),
        value=TrainState.init(value, optax.sgd(config.critic_lr, config.momentum)),
        returns=jnp.zeros(count),
        weights=jnp.ones(count),
        step=jnp.zeros((), jnp.int32),
    )


def update(
    state: AWRState, dataset: OfflineDataset, key: PRNGKeyArray, config: AWRConfig
) -> tuple[AWRState, dict[str, Array]]:
    """The next step of the round: of the critic in its first part, of the actor in its second."""
    length = config.critic_steps + config.actor_steps
    place = state.step % length
    starts = (place == 0) | (place == config.critic_steps)
    returns, weights = jax.lax.cond(
        starts, lambda: returns_and_weights(state.value.params, dataset, config), lambda: (state.returns, state.weights)
    )
    rows, batch = dataset.sample(key, config.batch_size)
    batch_returns, batch_weights = returns[rows], weights[rows]
    arrays, static = eqx.partition((state.value, state.actor), eqx.is_array)

    def critic_step(arrays: Any) -> tuple[Any, tuple[Array, Array]]:
        value, actor = eqx.combine(arrays, static)
        value, loss, _ = value.apply_gradient(
            optax.sgd(config.critic_lr, config.momentum),
            lambda value: (value_loss(value, batch, batch_returns, config), None),
        )
        return eqx.filter((value, actor), eqx.is_array), (loss * length / config.critic_steps, jnp.zeros(()))

    def actor_step(arrays: Any) -> tuple[Any, tuple[Array, Array]]:
        value, actor = eqx.combine(arrays, static)
        actor, loss, _ = actor.apply_gradient(
            optax.sgd(config.actor_lr, config.momentum),
            lambda actor: (weighted_imitation_loss(actor, batch, batch_weights, config), None),
        )
        return eqx.filter((value, actor), eqx.is_array), (jnp.zeros(()), loss * length / config.actor_steps)

    arrays, losses = jax.lax.cond(place < config.critic_steps, critic_step, actor_step, arrays)
    value, actor = eqx.combine(arrays, static)
    info = {
        "critic_loss": losses[0],  # each on its own steps alone, scaled so that a round's mean is theirs
        "actor_loss": losses[1],
        "mean_q": jnp.mean(batch_returns),
        "max_q": jnp.max(batch_returns),
    }
    return AWRState(actor, value, returns, weights, state.step + 1), info


def policy(state: AWRState) -> UnboundedActor:
    """The policy's mean, inside the box."""
    return state.actor.params
