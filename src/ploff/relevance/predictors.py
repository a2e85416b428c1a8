r"""Small networks that ask what an observation is good for, and how much each of its directions counts for them.

    inverse dynamics  (s, s′) → a        what the agent controls
    behavior          s → a              what those who acted looked at
    reward            (s, a) → r         what pays

Beside every observation stands a decoy: the observation of another episode, which has the same columns and moves in
the same way, and means nothing here. What a network makes of decoys is what it makes of noise.

The sensitivity of a network f to its observations x is M = E[Jᵀ J], J = ∂f/∂x. Weight decay and noise on the inputs
keep f flat where nothing is to be learned; the weights kept are those that predict held-out episodes best.

Shapes: B rows, D columns, X = 2D columns with decoys, A action, O outputs.
"""

import dataclasses
from collections.abc import Generator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.networks import MLP
from ploff.training.train_state import TrainState
from ploff.transitions import Transitions
from ploff.utils.config import check_counts, check_not_negative, check_positive, check_sizes, check_within

PREDICTORS = ("inverse dynamics", "behavior", "reward")
MAX_VALIDATION = 4096  # held-out rows that a check looks at
MAX_PASSES = 100  # over the rows to learn from: a short log has little to say
MARGIN = 1e-3  # of the error, by which an improvement counts as one


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelevanceConfig:
    """How relevance is learned."""

    steps: int = 3_000  # at most
    check_every: int = 500  # steps
    patience: int = 4  # checks without an improvement, after which learning stops
    members: int = 2  # times that it is learned, each with its own decoys and held-out episodes
    validation_fraction: float = 0.1  # share of the episodes that are held out
    batch_size: int = 256
    hidden_sizes: tuple[int, ...] = (128, 128)
    lr: float = 1e-3
    weight_decay: float = 1e-2
    action_noise: float = 0.3  # on the inputs of those that predict actions, in deviations
    reward_noise: float = 0.1  # on those of the reward's
    seed: int = 0

    def __post_init__(self):
        check_counts(self, "steps", "check_every", "patience", "members", "batch_size")
        check_within(self, "(0, 1)", "validation_fraction")
        check_sizes(self, "hidden_sizes")
        check_positive(self, "lr")
        check_not_negative(self, "weight_decay", "action_noise", "reward_noise", "seed")


class PredictorBatch(NamedTuple):
    """Transitions with decoys beside their observations."""

    observations: Float[Array, "B X"]
    next_observations: Float[Array, "B X"]
    actions: Float[Array, "B A"]
    rewards: Float[Array, "B 1"]


class DecoyedLog(eqx.Module):
    """A log in standardized columns, actions and rewards, and which row is whose decoy."""

    data: Transitions  # on the device
    decoys: Int[Array, "N"]
    action_shift: Float[Array, "A"]
    action_scale: Float[Array, "A"]

    @classmethod
    def of(cls, data: Transitions, rng: np.random.Generator) -> "DecoyedLog":
        """The log with decoys drawn anew; `data` is on the device, with standardized observations and rewards."""
        actions = np.asarray(data.action_space.encode(data.actions))
        scale = np.maximum(actions.std(axis=0), 1e-3)
        decoys = jnp.asarray(draw_decoys(data, rng), jnp.int32)
        return cls(data, decoys, jnp.asarray(actions.mean(axis=0)), jnp.asarray(scale))

    def batch(self, rows: Int[Array, "B"]) -> PredictorBatch:
        """Transitions by row."""
        own, other = self.data.batch(rows), self.data.batch(self.decoys[rows])
        return PredictorBatch(
            jnp.concatenate([own.observations, other.observations], axis=-1),
            jnp.concatenate([own.next_observations, other.next_observations], axis=-1),
            (own.actions - self.action_shift) / self.action_scale,
            own.rewards[:, None],
        )


def draw_decoys(data: Transitions, rng: np.random.Generator) -> Int[np.ndarray, "N"]:
    """For every row a row of another episode; consecutive rows have consecutive decoys, as far as that goes.

    A log of one episode is its own decoy, shifted in time.
    """
    starts, lengths = data.episode_starts(), data.episode_lengths()
    count = len(lengths)
    decoys = np.zeros(len(data), np.int64)
    for episode in range(count):
        partner = (episode + rng.integers(1, count)) % count if count > 1 else 0
        phase = rng.integers(lengths[partner] // 4, 3 * lengths[partner] // 4 + 1)
        own = np.arange(lengths[episode])
        decoys[starts[episode] + own] = starts[partner] + (phase + own) % lengths[partner]
    return decoys


class Predictors(eqx.Module):
    """The three networks."""

    inverse: MLP
    behavior: MLP
    reward: MLP

    @classmethod
    def init(cls, key: PRNGKeyArray, columns: int, actions: int, hidden_sizes: tuple[int, ...]) -> "Predictors":
        """Draws the weights, for observations of so many columns, decoys included."""
        keys = jax.random.split(key, 3)
        return cls(
            MLP.init(keys[0], (2 * columns, *hidden_sizes, actions)),
            MLP.init(keys[1], (columns, *hidden_sizes, actions)),
            MLP.init(keys[2], (columns + actions, *hidden_sizes, 1)),
        )

    def errors(self, batch: PredictorBatch) -> Float[Array, "3"]:
        """The mean squared error of each."""
        outputs = (
            self.inverse(jnp.concatenate([batch.observations, batch.next_observations], axis=-1)) - batch.actions,
            self.behavior(batch.observations) - batch.actions,
            self.reward(jnp.concatenate([batch.observations, batch.actions], axis=-1)) - batch.rewards,
        )
        return jnp.stack([jnp.mean(jnp.square(error)) for error in outputs])

    def sensitivities(self, batch: PredictorBatch) -> Float[Array, "3 B X X"]:
        """Jᵀ J of each at every row; of the inverse dynamics, the sum of those in s and in s′."""

        def of_row(row: PredictorBatch) -> Array:
            columns = row.observations.shape[0]
            both = jnp.concatenate([row.observations, row.next_observations])
            inverse = jax.jacrev(self.inverse)(both)
            jacobians = (
                jnp.concatenate([inverse[:, :columns], inverse[:, columns:]]),
                jax.jacrev(self.behavior)(row.observations),
                jax.jacrev(lambda x: self.reward(jnp.concatenate([x, row.actions])))(row.observations),
            )
            return jnp.stack([j.T @ j for j in jacobians])

        return jnp.swapaxes(jax.vmap(of_row)(batch), 0, 1)


class Fitted(NamedTuple):
    """Networks at their best, and how well they predict what they were not trained on."""

    predictors: Predictors
    errors: Float[np.ndarray, "3"]  # relative to always saying the mean: 0 is perfect, 1 says nothing


def fit(
    log: DecoyedLog, train: Int[np.ndarray, "T"], validation: Int[np.ndarray, "V"], seed: int, config: RelevanceConfig
) -> Generator[int, None, Fitted]:
    """Trains the networks; yields the number of steps done, at every check."""
    init_key, key = jax.random.split(jax.random.key(seed))
    columns, actions = 2 * log.data.observation_shape[0], log.data.action_space.width
    predictors = Predictors.init(init_key, columns, actions, config.hidden_sizes)
    state = TrainState.init(predictors, _optimizer(config))
    held = jnp.asarray(np.random.default_rng(seed).permutation(validation)[:MAX_VALIDATION], jnp.int32)
    rows, spread = jnp.asarray(train, jnp.int32), _spread(log, held)
    best, least, since = predictors, np.full(3, np.inf), 0
    steps = min(config.steps, max(config.check_every, MAX_PASSES * len(train) // config.batch_size))
    for step in range(0, steps, config.check_every):
        count = min(config.check_every, steps - step)
        state = _train(state, log, rows, key, jnp.asarray(step), count, config)
        errors = np.asarray(_held_out_errors(state.params, log, held) / spread)
        better = errors < least
        since = 0 if np.any(errors < least * (1 - MARGIN)) else since + 1
        parts = zip(_parts(state.params), _parts(best), better, strict=True)
        best, least = Predictors(*(new if b else old for new, old, b in parts)), np.minimum(errors, least)
        yield step + count
        if since >= config.patience:
            break
    return Fitted(best, least)


def _parts(predictors: Predictors) -> tuple[MLP, MLP, MLP]:
    return predictors.inverse, predictors.behavior, predictors.reward


def _optimizer(config: RelevanceConfig) -> optax.GradientTransformation:
    return optax.adamw(config.lr, weight_decay=config.weight_decay)


@eqx.filter_jit
def _train(
    state: TrainState[Predictors],
    log: DecoyedLog,
    rows: Array,
    key: PRNGKeyArray,
    first: Array,
    count: int,
    config: RelevanceConfig,
) -> TrainState[Predictors]:
    arrays, static = eqx.partition(state, eqx.is_array)

    def step(arrays, number: Array):
        state = eqx.combine(arrays, static)
        row_key, noise_key = jax.random.split(jax.random.fold_in(key, number))
        batch = log.batch(rows[jax.random.randint(row_key, (config.batch_size,), 0, rows.shape[0])])
        state, _, _ = state.apply_gradient(
            _optimizer(config), lambda predictors: (_noisy_loss(predictors, batch, noise_key, config), None)
        )
        return eqx.filter(state, eqx.is_array), None

    arrays, _ = jax.lax.scan(step, arrays, first + jnp.arange(count))
    return eqx.combine(arrays, static)


def _noisy_loss(predictors: Predictors, batch: PredictorBatch, key: PRNGKeyArray, config: RelevanceConfig) -> Array:
    """The sum of the three errors, with noise on the observations; the reward's own noise is smaller."""
    first, second = (jax.random.normal(k, batch.observations.shape) for k in jax.random.split(key))

    def noisy(size: float) -> PredictorBatch:
        return batch._replace(
            observations=batch.observations + size * first,
            next_observations=batch.next_observations + size * second,
        )

    actions, reward = noisy(config.action_noise), noisy(config.reward_noise)
    return jnp.sum(predictors.errors(actions)[:2]) + predictors.errors(reward)[2]


@eqx.filter_jit
def _held_out_errors(predictors: Predictors, log: DecoyedLog, rows: Array) -> Array:
    return predictors.errors(log.batch(rows))


@eqx.filter_jit
def _spread(log: DecoyedLog, rows: Array) -> Array:
    """The error of always saying the mean, for each network."""
    batch = log.batch(rows)
    actions = jnp.mean(jnp.var(batch.actions, axis=0))
    return jnp.maximum(jnp.stack([actions, actions, jnp.mean(jnp.var(batch.rewards, axis=0))]), 1e-8)
