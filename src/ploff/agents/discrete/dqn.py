r"""Double DQN (van Hasselt et al., 2016) on a log, as pure functions; other methods change whom its target listens to.

    L = mean (Q(s,a) − y)²,   y = r + (1 − terminal) γ Q̄(s', a*),   a* = argmax over the legal a' of Q(s', a')

It has nothing that keeps it near the data: the counterpart of TD3-Off.

Shapes: B rows, n actions.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.agents.config import NetworkConfig
from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete.networks import ActionScores, GreedyPolicy, Legal, masked, score_at, score_of
from ploff.agents.td3 import Info, bootstrapped_target, critic_info
from ploff.training.train_state import TrainState
from ploff.transitions import Batch, RewardScale
from ploff.utils.config import check_positive, check_within


@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNConfig(NetworkConfig):
    """A critic with one output per action."""

    discount: float = 0.99  # γ
    reward_scale: RewardScale = "unit"
    layer_norm: bool = True  # in the critic
    critic_lr: float = 3e-4
    tau: float = 0.005  # rate of the target network

    def __post_init__(self):
        super().__post_init__()
        check_within(self, "[0, 1)", "discount")
        check_within(self, "(0, 1]", "tau")
        check_positive(self, "critic_lr")


class DQNState(eqx.Module):
    """Everything that an update reads and writes."""

    critic: TrainState[ActionScores]


class CriticStep(NamedTuple):
    """What the critic learned from in one step."""

    rows: Int[Array, "B"]
    batch: Batch
    legal: Legal
    q_values: Float[Array, "B n"]  # before the step
    loss: Float[Array, ""]


State = TypeVar("State", bound=DQNState)
# (Q(s', ·), s', the rows of s') to the scores that a* is the best of, and what each action adds to Q̄(s', a*).
DecideFn = Callable[
    [Float[Array, "B n"], Float[Array, "B *S"], Int[Array, "B"]], tuple[Float[Array, "B n"], Float[Array, "B n"]]
]
# (Q(s, ·), the batch, which actions are legal) to what the loss of each row is more.
PenaltyFn = Callable[[Float[Array, "B n"], Batch, Legal], Float[Array, "B"]]


def as_valued(q: Array, observations: Array, rows: Array) -> tuple[Array, Array]:
    """a* is the action of the highest value, and nothing is added."""
    return q, jnp.zeros_like(q)


def no_penalty(q: Array, batch: Batch, legal: Legal) -> Array:
    """The squared error alone."""
    return jnp.zeros(q.shape[0])


def init_critic(key: PRNGKeyArray, dataset: OfflineDataset, config: DQNConfig) -> TrainState[ActionScores]:
    """Draws the critic; the target equals it."""
    data, hidden = dataset.data, config.hidden_layers._replace(layer_norm=config.layer_norm)
    critic = ActionScores.init(key, data.input_shape, data.action_space.n, hidden)
    return TrainState.init(critic, optax.adam(config.critic_lr), with_target=True)


def init(key: PRNGKeyArray, dataset: OfflineDataset, config: DQNConfig) -> DQNState:
    """Draws the critic."""
    return DQNState(init_critic(key, dataset, config))


def update(state: DQNState, dataset: OfflineDataset, key: PRNGKeyArray, config: DQNConfig) -> tuple[DQNState, Info]:
    """One gradient step of the critic, and one of its target after it."""
    state, step = update_critic(state, dataset, key, config)
    return state, step_info(step)


def policy(state: DQNState) -> GreedyPolicy:
    """The action of the highest value."""
    return GreedyPolicy(state.critic.params)


# The parts that other methods are made of.


def update_critic(
    state: State,
    dataset: OfflineDataset,
    key: PRNGKeyArray,
    config: DQNConfig,
    decide_fn: DecideFn = as_valued,
    penalty_fn: PenaltyFn = no_penalty,
) -> tuple[State, CriticStep]:
    """Takes one gradient step of the critic.

    Args:
      state, dataset, key, config: as for `update`.
      decide_fn: which next action the target takes, and what it adds to its value.
      penalty_fn: what the loss has beside the squared error.
    """
    rows, batch = dataset.sample(key, config.batch_size)
    legal, next_states = dataset.legal_actions(rows), dataset.next_states(rows)
    next_q = state.critic.params(batch.next_observations)
    scores, added = decide_fn(next_q, batch.next_observations, next_states)
    best = jnp.argmax(masked(scores, dataset.legal_actions(next_states)), axis=-1)
    next_value = score_at(state.critic.target(batch.next_observations) + added, best)
    target = bootstrapped_target(batch, next_value, config.discount)

    def loss_fn(critic: ActionScores) -> tuple[Array, Array]:
        q = critic(batch.observations)
        error = jnp.square(score_of(q, batch.actions) - target)
        return jnp.mean(error + penalty_fn(q, batch, legal)), q

    critic, loss, q = state.critic.apply_gradient(optax.adam(config.critic_lr), loss_fn)
    step = CriticStep(rows, batch, legal, jax.lax.stop_gradient(q), loss)
    return dataclasses.replace(state, critic=critic.update_target(config.tau)), step


def step_info(step: CriticStep) -> Info:
    """The critic's loss and the values of the logged actions."""
    return critic_info(step.loss, score_of(step.q_values, step.batch.actions))
