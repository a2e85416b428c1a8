r"""TD3 (Fujimoto et al., 2018) as pure functions; other methods change its target and its actor's loss.

    critic:  L = mean_i Σ_j (Q_j(s,a) − y)²,   y = r + (1 − terminal) γ min_j Q̄_j(s', ã),   ã = clip(π̄(s') + ε)
    actor:   max mean Q_1(s, π(s)), every `policy_delay`-th step

ε is Gaussian, clipped; bars are target networks. A timeout bootstraps like any other step: the process went on.

Shapes: B rows, A action.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents.config import ActorCriticConfig
from ploff.agents.dataset import BatchSource, OfflineDataset
from ploff.agents.networks import Actor, DoubleCritic
from ploff.networks import Activation
from ploff.training.train_state import TrainState
from ploff.transitions import Batch, RewardScale
from ploff.utils.config import check_counts, check_not_negative


@dataclasses.dataclass(frozen=True, kw_only=True)
class TD3Config(ActorCriticConfig):
    """TD3 with the networks and the rewards that PLOff's paper has."""

    activation: Activation = "tanh-elu"
    reward_scale: RewardScale = "unit"
    layer_norm: bool = False  # in the critics
    target_noise: float = 0.2  # on the target's action, in units of half an action's range
    target_noise_clip: float = 0.5
    policy_delay: int = 2  # critic steps per actor step

    def __post_init__(self):
        super().__post_init__()
        check_counts(self, "policy_delay")
        check_not_negative(self, "target_noise", "target_noise_clip")


class TD3State(eqx.Module):
    """Everything that an update reads and writes."""

    actor: TrainState[Actor]
    critics: TrainState[DoubleCritic]
    step: Int[Array, ""]


class CriticStep(NamedTuple):
    """What the critics learned from in one step."""

    rows: Int[Array, "B"]
    batch: Batch
    loss: Float[Array, ""]
    q_values: Float[Array, "2 B"]  # of the logged actions, as both critics had them before the step


State = TypeVar("State", bound=TD3State)
Info = dict[str, Array]
# (min Q̄(s', ã), rows of s', π̄(s')) to what y adds to the reward.
NextValueFn = Callable[[Float[Array, "B"], Int[Array, "B"], Float[Array, "B A"]], Float[Array, "B"]]
# (the critics' step, π(s), Q(s, π(s)), ∂Q/∂a there as a constant) to the actor's loss, and scalars for the info.
ActorLossFn = Callable[
    [CriticStep, Float[Array, "B A"], Float[Array, "B"], Float[Array, "B A"]], tuple[Float[Array, ""], Info]
]
QFn = Callable[[DoubleCritic, Float[Array, "B *S"], Float[Array, "B A"]], Float[Array, "B"]]


def critic_loss(
    critics: DoubleCritic, batch: Batch, target: Float[Array, "B"]
) -> tuple[Float[Array, ""], Float[Array, "2 B"]]:
    """Σ_j mean (Q_j − y)², and both critics' values."""
    q_values = jnp.stack(critics(batch.observations, batch.actions))
    return jnp.sum(jnp.mean(jnp.square(q_values - target), axis=-1)), q_values


def greedy_loss(step: CriticStep, actions: Array, q: Array, q_grad: Array) -> tuple[Array, Info]:
    """−mean Q: the actor takes what the critic likes best."""
    return -jnp.mean(q), {}


def q1(critics: DoubleCritic, observations: Array, actions: Array) -> Array:
    """Q₁: what TD3's actor follows."""
    return critics.q1(observations, actions)


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: TD3Config) -> TD3State:
    """Draws the networks; the targets equal them."""
    return init_for(key, dataset.data.input_shape, dataset.data.action_space, config)


def init_for(key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, config: TD3Config) -> TD3State:
    """Does what `init` does, for observations and actions of the given kind."""
    actor_key, critic_key = jax.random.split(key)
    hidden = config.hidden_layers
    actor = Actor.init(actor_key, shape, space, hidden)
    critics = DoubleCritic.init(critic_key, shape, space, hidden._replace(layer_norm=config.layer_norm))
    return TD3State(
        actor=TrainState.init(actor, optax.adam(config.actor_lr), with_target=True),
        critics=TrainState.init(critics, optax.adam(config.critic_lr), with_target=True),
        step=jnp.zeros((), jnp.int32),
    )


def update(state: TD3State, dataset: BatchSource, key: PRNGKeyArray, config: TD3Config) -> tuple[TD3State, Info]:
    """One step of plain TD3 on rows of a log, or of a replay buffer."""
    return update_with(state, dataset, key, config)


def policy(state: TD3State) -> Actor:
    """π."""
    return state.actor.params


# The parts that other methods are made of.


def update_with(
    state: State,
    dataset: BatchSource,
    key: PRNGKeyArray,
    config: TD3Config,
    *,
    next_value_fn: NextValueFn | None = None,
    actor_loss_fn: ActorLossFn = greedy_loss,
    q_fn: QFn = q1,
) -> tuple[State, Info]:
    """Takes one gradient step of the critics, and every `policy_delay`-th time of the actor and both targets.

    Args:
      state, dataset, key, config: as for `update`.
      next_value_fn: what the critics' target adds to the reward; γ min Q̄ by default.
      actor_loss_fn: the actor's loss.
      q_fn: the Q of the actor's loss, from both critics; Q₁ by default.
    """
    state, step = update_critics(state, dataset, key, config, next_value_fn)
    return update_actor(state, step, config, actor_loss_fn, q_fn)


def update_critics(
    state: State,
    dataset: BatchSource,
    key: PRNGKeyArray,
    config: TD3Config,
    next_value_fn: NextValueFn | None = None,
) -> tuple[State, CriticStep]:
    """Does the critics' part of `update_with`."""
    sample_key, noise_key = jax.random.split(key)
    rows, batch = dataset.sample(sample_key, config.batch_size)
    next_value_fn = next_value_fn or (lambda value, rows, actions: config.discount * value)
    target = td_target(state, batch, dataset.next_states(rows), noise_key, config, next_value_fn)
    critics, loss, q_values = state.critics.apply_gradient(
        optax.adam(config.critic_lr), lambda critics: critic_loss(critics, batch, jax.lax.stop_gradient(target))
    )
    state = dataclasses.replace(state, critics=critics, step=state.step + 1)
    return state, CriticStep(rows, batch, loss, q_values)


def update_actor(
    state: State, step: CriticStep, config: TD3Config, actor_loss_fn: ActorLossFn = greedy_loss, q_fn: QFn = q1
) -> tuple[State, Info]:
    """Does the actor's part of `update_with`: every `policy_delay`-th time; otherwise nothing of it changes."""
    arrays, static = eqx.partition(state, eqx.is_array)

    def move(arrays: Any) -> tuple[Any, Info]:
        moved, info = _actor_step(eqx.combine(arrays, static), step, config, actor_loss_fn, q_fn)
        return eqx.filter(moved, eqx.is_array), info

    def rest(arrays: Any) -> tuple[Any, Info]:
        _, info = jax.eval_shape(move, arrays)
        return arrays, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), info)

    arrays, info = jax.lax.cond(state.step % config.policy_delay == 0, move, rest, arrays)
    # Scaled so that a mean over steps is a mean over the actor's own.
    info = {name: value * config.policy_delay for name, value in info.items()}
    return eqx.combine(arrays, static), critic_info(step.loss, step.q_values) | info


def critic_info(loss: Float[Array, ""], q_values: Array) -> Info:
    """What every method with critics tells of them; `max_q` is to be held against the largest reward / (1 − γ)."""
    return {"critic_loss": loss, "mean_q": jnp.mean(q_values), "max_q": jnp.max(q_values)}


def td_target(
    state: TD3State,
    batch: Batch,
    next_states: Int[Array, "B"],
    key: PRNGKeyArray,
    config: TD3Config,
    next_value_fn: NextValueFn,
) -> Float[Array, "B"]:
    """y: the reward, and what the next state is worth unless the process ended there."""
    next_actions = state.actor.target(batch.next_observations)
    smoothed = target_policy_smoothing(next_actions, key, config, state.actor.target.space)
    value = state.critics.target.min(batch.next_observations, smoothed)
    return batch.rewards + jnp.where(batch.terminals, 0.0, next_value_fn(value, next_states, next_actions))


def bootstrapped_target(batch: Batch, next_value: Float[Array, "B"], discount: float) -> Float[Array, "B"]:
    """The target y = r + γ v(s'), and r alone where the process ended; no gradient flows through it."""
    return jax.lax.stop_gradient(batch.rewards + jnp.where(batch.terminals, 0.0, discount * next_value))


def target_policy_smoothing(
    actions: Float[Array, "B A"], key: PRNGKeyArray, config: TD3Config, space: ActionSpace
) -> Float[Array, "B A"]:
    """Actions with clipped noise, drawn for each row by itself, inside the box."""
    noise = config.target_noise * jax.random.normal(key, actions.shape)
    return space.perturb(actions, jnp.clip(noise, -config.target_noise_clip, config.target_noise_clip))


def value_and_action_grad(
    function: Callable[[Float[Array, "B A"]], Float[Array, "B"]], actions: Float[Array, "B A"]
) -> tuple[Float[Array, "B"], Float[Array, "B A"]]:
    """A function's value, through which its gradient flows to the actions, and that gradient as a constant.

    Both come from one backward pass.
    """
    point = jax.lax.stop_gradient(actions)
    value, backward = jax.vjp(function, point)
    (gradient,) = backward(jnp.ones_like(value))
    return value + jnp.sum(gradient * (actions - point), axis=-1), gradient


def _actor_step(
    state: State, step: CriticStep, config: TD3Config, actor_loss_fn: ActorLossFn, q_fn: QFn
) -> tuple[State, Info]:
    observations = step.batch.observations

    def loss_fn(actor: Actor) -> tuple[Array, Info]:
        actions = actor(observations)
        q, q_grad = value_and_action_grad(lambda a: q_fn(state.critics.params, observations, a), actions)
        return actor_loss_fn(step, actions, q, q_grad)

    actor, loss, info = state.actor.apply_gradient(optax.adam(config.actor_lr), loss_fn)
    state = dataclasses.replace(
        state, actor=actor.update_target(config.tau), critics=state.critics.update_target(config.tau)
    )
    return state, {"actor_loss": loss, **info}
