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
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents.actor_critic import Layers, Network
from ploff.agents.learner import Learner, StateValue
from ploff.agents.log import Log
from ploff.agents.settings import NetworkConfig
from ploff.networks import Linear
from ploff.settings import counts, not_negative, positive, within
from ploff.transitions import UNKNOWN, Batch, RewardScale, Transitions

BLOCK = 8_192  # states valued at a time
FIRST_ACTIONS = 0.01  # limit of the actor's last weights at the start
Either = TypeVar("Either", bound=Network)  # the actor's mean, or the value


@dataclasses.dataclass(frozen=True, kw_only=True)
class AWRConfig(NetworkConfig):
    """As the authors' code has it for tasks that it does not name, among them all of D4RL's."""

    discount: float = 0.99  # γ
    rewards: RewardScale = "own"
    hidden: tuple[int, ...] = (128, 64)
    actor_rate: float = 5e-5  # of stochastic gradients with momentum
    critic_rate: float = 1e-2
    momentum: float = 0.9
    critic_steps: int = 500
    actor_steps: int = 1000
    trace: float = 0.95  # λ
    temperature: float = 1.0  # β, in deviations of the advantages
    largest_weight: float = 20.0  # c
    deviation: float = 0.2  # σ, in units of half an action's range
    outside_weight: float = 10.0  # κ

    def __post_init__(self):
        super().__post_init__()
        within(self, "[0, 1)", "discount", "momentum")
        within(self, "[0, 1]", "trace")
        counts(self, "critic_steps", "actor_steps")
        positive(self, "actor_rate", "critic_rate", "temperature", "largest_weight", "deviation")
        not_negative(self, "outside_weight")


class Mean(Network):
    """μ: the policy's mean in units of half an action's range. Nothing but its loss holds it inside the box."""

    space: ActionSpace = eqx.field(static=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, hidden: Layers) -> "Mean":
        """Nearly 0 in every state."""
        return evened(cls.fresh(key, shape, hidden, space.width, space=space), FIRST_ACTIONS)

    def __call__(self, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
        """μ(s)."""
        return self.outputs(observations)


class AWRState(eqx.Module):
    """Everything that an update reads and writes."""

    actor: Learner[Mean]
    value: Learner[StateValue]
    returns: Float[Array, "N"]  # G of this round
    weights: Float[Array, "N"]  # w of this round
    step: Int[Array, ""]


class AWRInfo(NamedTuple):
    """What an update saw; a loss counts on its own steps alone, scaled so that a round's mean is theirs."""

    critic_loss: Array
    actor_loss: Array
    mean_q: Array  # of the returns G
    largest_q: Array  # to be held against the largest reward / (1 − γ)


def init(key: PRNGKeyArray, log: Log, config: AWRConfig) -> AWRState:
    """Fresh networks; the first update starts a round."""
    actor_key, value_key = jax.random.split(key)
    shape, count = log.data.observation_shape, len(log.data)
    actor = Mean.init(actor_key, shape, log.data.action_space, config.layers)
    value = evened(StateValue.init(value_key, shape, config.layers))
    return AWRState(
        actor=Learner.init(actor, optax.sgd(config.actor_rate, config.momentum)),
        value=Learner.init(value, optax.sgd(config.critic_rate, config.momentum)),
        returns=jnp.zeros(count),
        weights=jnp.ones(count),
        step=jnp.zeros((), jnp.int32),
    )


def evened(network: Either, last: float | None = None) -> Either:
    """Weights uniform in ±√(6/(in + out)), as the authors start them, those of the last layer in ±`last` if given.

    Plain gradients keep the size that weights give them, and with it the speed of learning.
    """

    def within(layer: Linear, limit: float | None = None) -> Linear:
        inputs, outputs = layer.weight.shape
        reach = (6 / (inputs + outputs)) ** 0.5 if limit is None else limit
        return eqx.tree_at(lambda one: one.weight, layer, layer.weight * reach * inputs**0.5)

    layers = tuple(within(layer) for layer in network.body.layers)
    return eqx.tree_at(
        lambda one: (one.body.layers, one.body.last), network, (layers, within(network.body.last, last))
    )


def update(state: AWRState, log: Log, key: PRNGKeyArray, config: AWRConfig) -> tuple[AWRState, AWRInfo]:
    """The next step of the round: of the critic in its first part, of the actor in its second."""
    length = config.critic_steps + config.actor_steps
    place = state.step % length
    starts = (place == 0) | (place == config.critic_steps)
    returns, weights = jax.lax.cond(
        starts, lambda: judged(state.value.network, log, config), lambda: (state.returns, state.weights)
    )
    rows, batch = log.draw(key, config.batch)
    wanted, weighted = returns[rows], weights[rows]
    arrays, static = eqx.partition((state.value, state.actor), eqx.is_array)

    def critic(arrays):
        value, actor = eqx.combine(arrays, static)
        value, loss, _ = value.descend(
            optax.sgd(config.critic_rate, config.momentum),
            lambda value: (value_loss(value, batch, wanted, config), None),
        )
        return eqx.filter((value, actor), eqx.is_array), (loss * length / config.critic_steps, jnp.zeros(()))

    def policy(arrays):
        value, actor = eqx.combine(arrays, static)
        actor, loss, _ = actor.descend(
            optax.sgd(config.actor_rate, config.momentum),
            lambda actor: (weighted_imitation(actor, batch, weighted, config), None),
        )
        return eqx.filter((value, actor), eqx.is_array), (jnp.zeros(()), loss * length / config.actor_steps)

    arrays, losses = jax.lax.cond(place < config.critic_steps, critic, policy, arrays)
    value, actor = eqx.combine(arrays, static)
    info = AWRInfo(*losses, mean_q=jnp.mean(wanted), largest_q=jnp.max(wanted))
    return AWRState(actor, value, returns, weights, state.step + 1), info


def judged(value: StateValue, log: Log, config: AWRConfig) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
    """G and w of every logged action, under the value as it is."""
    values = state_values(value, log.data) / (1 - config.discount)
    returns = traced_returns(log.data, values, config.discount, config.trace)
    advantages = returns - values[: len(log.data)]
    drawn = advantages[log.rows]
    standard = (advantages - jnp.mean(drawn)) / (jnp.std(drawn) + 1e-5)
    return returns, jnp.minimum(jnp.exp(standard / config.temperature), config.largest_weight)


def state_values(value: StateValue, data: Transitions) -> Float[Array, "M"]:
    """The network's value of every state of the log, block by block."""
    count = data.num_states
    size = min(BLOCK, count)
    blocks = -(-count // size)
    rows = jnp.minimum(jnp.arange(blocks * size), count - 1).reshape(blocks, size)
    return jax.lax.map(lambda block: value(data.states(block)), rows).reshape(-1)[:count]


def traced_returns(
    data: Transitions, values: Float[Array, "M"], discount: float, trace: float
) -> Float[Array, "N"]:
    """G, by the recurrence G_t = a_t + b_t G_{t+1} for all t at once.

    A row whose successor the log does not tell stands for its own value: it is bootstrapped from, never learned from.
    """
    rewards = data.reward_units.apply(jnp.asarray(data.rewards))
    terminals, goes_on = jnp.asarray(data.terminals), inside(data)
    successors = jnp.asarray(data.successors)
    known = successors != UNKNOWN
    following = jnp.where(terminals | ~known, 0.0, values[jnp.where(known, successors, 0)])
    own_share = jnp.where(goes_on, 1 - trace, 1.0)
    constant = rewards + discount * own_share * following
    constant = jnp.where(known | terminals, constant, values[: len(data)])
    factor = jnp.where(goes_on, discount * trace, 0.0)

    def compose(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    returns, _ = jax.lax.associative_scan(compose, (constant, factor), reverse=True)
    return returns


def inside(data: Transitions) -> Bool[Array, "N"]:
    """Whether the next row of the log goes on where this one ends."""
    ended = jnp.asarray(data.terminals) | jnp.asarray(data.timeouts)
    return (
        ~ended
        & (jnp.asarray(data.successors) == jnp.arange(1, len(data) + 1))
        & (jnp.arange(len(data)) < len(data) - 1)
    )


def value_loss(
    value: StateValue, batch: Batch, returns: Float[Array, "B"], config: AWRConfig
) -> Float[Array, ""]:
    """½ mean (V − G)², in units of 1/(1 − γ)."""
    return 0.5 * jnp.mean(jnp.square(value(batch.observations) - (1 - config.discount) * returns))


def weighted_imitation(
    actor: Mean, batch: Batch, weights: Float[Array, "B"], config: AWRConfig
) -> Float[Array, ""]:
    """Mean of w |μ(s) − a|² / 2σ², and of the square that μ(s) is outside the box by."""
    mean = actor(batch.observations)
    apart = jnp.sum(jnp.square(mean - actor.space.to_unit(batch.actions)), axis=-1)
    outside = jnp.sum(jnp.square(mean - jnp.clip(mean, -1.0, 1.0)), axis=-1)
    penalty = 0.5 * config.outside_weight * outside
    return jnp.mean(weights * apart / (2 * config.deviation**2) + penalty)


def act(state: AWRState, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
    """The policy's mean, inside the box."""
    actor = state.actor.network
    return actor.space.from_unit(jnp.clip(actor(observations), -1.0, 1.0))
