r"""TD3 (Fujimoto et al., 2018) as pure functions; other methods bend its target and its actor's loss.

    critic:  L = mean_i Σ_j (Q_j(s,a) − y)²,   y = r + (1 − terminal) γ min_j Q̄_j(s', ã),   ã = clip(π̄(s') + ε)
    actor:   max mean Q_1(s, π(s)), every `delay`-th step

ε is Gaussian, clipped; bars are moving averages. A timeout bootstraps like any other step: the process went on.

Shapes: B rows, A action.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.agents.actor_critic import Activation, Actor, Twins, moved
from ploff.agents.log import Log
from ploff.agents.settings import OfflineConfig
from ploff.settings import counts, not_negative
from ploff.transitions import Batch, RewardScale


@dataclasses.dataclass(frozen=True, kw_only=True)
class TD3Config(OfflineConfig):
    """TD3 as the paper runs it; it is also the ablation without any bonus, TD3-Off."""

    activation: Activation = "tanh-elu"
    rewards: RewardScale = "unit"
    layer_norm: bool = False  # in the critics
    noise: float = 0.2  # on the target's action, in units of half an action's range
    noise_clip: float = 0.5
    delay: int = 2  # the actor moves every so many steps

    def __post_init__(self):
        super().__post_init__()
        counts(self, "delay")
        not_negative(self, "noise", "noise_clip")


class TD3State(eqx.Module):
    """Everything that an update reads and writes."""

    actor: Actor
    critics: Twins
    target_actor: Actor
    target_critics: Twins
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    step: Int[Array, ""]


class Seen(NamedTuple):
    """What the critics learned from in one step."""

    rows: Int[Array, "B"]
    batch: Batch
    loss: Float[Array, ""]
    values: Float[Array, "2 B"]  # of the logged actions, as both critics had them before the step


class TD3Info(NamedTuple):
    """What an update saw."""

    critic_loss: Array
    actor_loss: Array
    mean_q: Array
    largest_q: Array  # to be held against the largest reward / (1 − γ)
    distance: Array  # of the actor's actions to the data, in spacings; NaN-free: 0 where it is not measured


State = TypeVar("State", bound=TD3State)
Backup = Callable[[Float[Array, "B"], Int[Array, "B"], Float[Array, "B A"]], Float[Array, "B"]]
Objective = Callable[
    [Seen, Float[Array, "B A"], Float[Array, "B"], Float[Array, "B A"]],
    tuple[Float[Array, ""], Float[Array, ""]],
]


Judge = Callable[[Twins, Float[Array, "B *S"], Float[Array, "B A"]], Float[Array, "B"]]


def by_the_first(critics: Twins, observations: Array, actions: Array) -> Array:
    """Q₁: what TD3's actor follows."""
    return critics.first(observations, actions)


def init(key: PRNGKeyArray, log: Log, config: TD3Config) -> TD3State:
    """Fresh networks; the targets equal them."""
    return start(key, log.data.observation_shape, log.data.action_space, config)


def start(key: PRNGKeyArray, shape: tuple[int, ...], space: ActionSpace, config: TD3Config) -> TD3State:
    """As `init`, for observations and actions of the given kind."""
    actor_key, critic_key = jax.random.split(key)
    actor = Actor.init(actor_key, shape, space, config.layers)
    critics = Twins.init(critic_key, shape, space, config.layers._replace(norm=config.layer_norm))
    return TD3State(
        actor=actor,
        critics=critics,
        target_actor=actor,
        target_critics=critics,
        actor_optimiser=optax.adam(config.actor_rate).init(eqx.filter(actor, eqx.is_array)),
        critic_optimiser=optax.adam(config.critic_rate).init(eqx.filter(critics, eqx.is_array)),
        step=jnp.zeros((), jnp.int32),
    )


def discounted(discount: float) -> Backup:
    """γ min Q̄: what follows is worth its own value, discounted."""
    return lambda value, rows, actions: discount * value


def greedy(seen: Seen, actions: Array, value: Array, slope: Array) -> tuple[Array, Array]:
    """−mean Q: the actor takes what the critic likes best."""
    return -jnp.mean(value), jnp.zeros(())


def update(state: TD3State, log: Log, key: PRNGKeyArray, config: TD3Config) -> tuple[TD3State, TD3Info]:
    """One step of plain TD3 on rows of the log: TD3-Off."""
    return step(state, log, key, config)


def act(state: TD3State, observations: Float[Array, "B *S"]) -> Float[Array, "*B A"]:
    """The policy's actions."""
    return state.actor(observations)


def step(
    state: State,
    log: Log,
    key: PRNGKeyArray,
    config: TD3Config,
    backup: Backup | None = None,
    objective: Objective = greedy,
    judged: Judge = by_the_first,
) -> tuple[State, TD3Info]:
    """One gradient step of the critics, and every `delay`-th time of the actor and the averages of both.

    Args:
      state, log, key, config: as for `update`.
      backup: (min Q̄(s', ã), rows of s', π̄(s')) to what y adds to the reward; γ min Q̄ by default.
      objective: (what was seen, π(s), Q(s, π(s)), ∂Q/∂a there, as a constant) to the actor's loss, and its mean
        distance to the data.
      judged: the Q of the objective, of both critics; Q₁ by default.
    """
    state, seen = learn_critics(state, log, key, config, backup)
    return learn_actor(state, seen, config, objective, judged)


def learn_critics(
    state: State, log: Log, key: PRNGKeyArray, config: TD3Config, backup: Backup | None = None
) -> tuple[State, Seen]:
    """The critics' part of `step`, and what they saw."""
    draw_key, noise_key = jax.random.split(key)
    rows, batch = log.draw(draw_key, config.batch)
    backup = backup or discounted(config.discount)
    wanted = target(state, batch, log.successors(rows), noise_key, config, backup)
    (loss, values), gradient = eqx.filter_value_and_grad(critic_loss, has_aux=True)(
        state.critics, batch, jax.lax.stop_gradient(wanted)
    )
    changes, optimiser = optax.adam(config.critic_rate).update(gradient, state.critic_optimiser)
    critics = eqx.apply_updates(state.critics, changes)
    state = dataclasses.replace(state, critics=critics, critic_optimiser=optimiser, step=state.step + 1)
    return state, Seen(rows, batch, loss, values)


def learn_actor(
    state: State,
    seen: Seen,
    config: TD3Config,
    objective: Objective = greedy,
    judged: Judge = by_the_first,
) -> tuple[State, TD3Info]:
    """The actor's part of `step`: every `delay`-th time; otherwise nothing of it changes."""
    arrays, static = eqx.partition(state, eqx.is_array)

    def moving(arrays):
        moved_state, outcome = _actor_step(eqx.combine(arrays, static), seen, config, objective, judged)
        return eqx.filter(moved_state, eqx.is_array), outcome

    def resting(arrays):
        return arrays, (jnp.zeros(()), jnp.zeros(()))

    arrays, (loss, distance) = jax.lax.cond(state.step % config.delay == 0, moving, resting, arrays)
    info = TD3Info(
        critic_loss=seen.loss,
        actor_loss=loss * config.delay,  # a mean over steps is then a mean over the actor's own
        mean_q=jnp.mean(seen.values),
        largest_q=jnp.max(seen.values),
        distance=distance * config.delay,
    )
    return eqx.combine(arrays, static), info


def target(
    state: TD3State,
    batch: Batch,
    successors: Int[Array, "B"],
    key: PRNGKeyArray,
    config: TD3Config,
    backup: Backup,
) -> Float[Array, "B"]:
    """y: the reward, and what is backed up from the next state unless the process ended there."""
    clean = state.target_actor(batch.next_observations)
    noisy = smoothed(clean, key, config, state.actor.space)
    value = state.target_critics.least(batch.next_observations, noisy)
    return batch.rewards + jnp.where(batch.terminals, 0.0, backup(value, successors, clean))


def smoothed(
    actions: Float[Array, "B A"], key: PRNGKeyArray, config: TD3Config, space: ActionSpace
) -> Float[Array, "B A"]:
    """Actions with clipped noise of their own a row, inside the box."""
    noise = jnp.clip(
        config.noise * jax.random.normal(key, actions.shape), -config.noise_clip, config.noise_clip
    )
    low, high = jnp.asarray(space.low), jnp.asarray(space.high)
    return jnp.clip(actions + noise * jnp.asarray(space.half_range, jnp.float32), low, high)


def critic_loss(
    critics: Twins, batch: Batch, wanted: Float[Array, "B"]
) -> tuple[Float[Array, ""], Float[Array, "2 B"]]:
    """Σ_j mean (Q_j − y)², and both critics' values."""
    values = jnp.stack(critics(batch.observations, batch.actions))
    return jnp.sum(jnp.mean(jnp.square(values - wanted), axis=-1)), values


def tangent(
    function: Callable[[Float[Array, "B A"]], Float[Array, "B"]], at: Float[Array, "B A"]
) -> tuple[Float[Array, "B"], Float[Array, "B A"]]:
    """A function's value, through which its gradient flows to `at`, and that gradient as a constant: one pass back."""
    point = jax.lax.stop_gradient(at)
    value, back = jax.vjp(function, point)
    (slope,) = back(jnp.ones_like(value))
    return value + jnp.sum(slope * (at - point), axis=-1), slope


def _actor_step(
    state: State, seen: Seen, config: TD3Config, objective: Objective, judged: Judge
) -> tuple[State, tuple[Array, Array]]:
    observations = seen.batch.observations

    def loss(actor: Actor) -> tuple[Array, Array]:
        actions = actor(observations)
        value, slope = tangent(lambda a: judged(state.critics, observations, a), actions)
        return objective(seen, actions, value, slope)

    (value, distance), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(state.actor)
    changes, optimiser = optax.adam(config.actor_rate).update(gradient, state.actor_optimiser)
    actor = eqx.apply_updates(state.actor, changes)
    following = dataclasses.replace(
        state,
        actor=actor,
        actor_optimiser=optimiser,
        target_actor=moved(state.target_actor, actor, config.target_rate),
        target_critics=moved(state.target_critics, state.critics, config.target_rate),
    )
    return following, (value, distance)
