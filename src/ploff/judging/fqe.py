r"""Fitted Q evaluation: several networks learn what a policy's actions are worth, from logged transitions alone.

    q(s, a)  ←  (1 − γ) c + γ (1 − terminal) q̄(s', π(s')),     c = (r, 1)

Each network has two outputs, the reward per step that is to come and the share of steps that are lived to see, both
discounted and both averages, so that no target exceeds what rewards allow. A network sees its own resample of the
episodes: what networks disagree about, the log does not say. Policies are deterministic, so their actions are asked for
once, and a network reads rows of a table.

An episode's return is the reward per step that is lived times the steps until an end or the horizon, with the rate of
ends that explains the discounted share of steps (`returns_of`).

Shapes: K rows, D input, S first states, R networks, B rows of a batch.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ploff.networks import MLP
from ploff.utils.config import check_counts, check_positive, check_sizes, check_within


@dataclasses.dataclass(frozen=True, kw_only=True)
class FQEConfig:
    """Networks, and how long they learn."""

    num_networks: int = 4  # R
    hidden_sizes: tuple[int, ...] = (64, 64)
    layer_norm: bool = True
    batch_size: int = 256
    steps: int = 4_000
    lr: float = 1e-3  # of Adam; falls to 0 along a cosine
    tau: float = 0.02  # rate of the target networks
    discount: float = 0.99  # γ
    seed: int = 0

    def __post_init__(self):
        check_counts(self, "num_networks", "batch_size", "steps")
        check_sizes(self, "hidden_sizes")
        check_positive(self, "lr")
        check_within(self, "[0, 1)", "discount")
        check_within(self, "(0, 1]", "tau")


class FQEData(NamedTuple):
    """Transitions as networks read them."""

    inputs: Float[Array, "K D"]  # of (s, a)
    next_inputs: Float[Array, "K D"]  # of (s', π(s'))
    costs: Float[Array, "K 2"]  # (r, 1)
    continues: Float[Array, "K"]  # 0 after a terminal
    starts: Float[Array, "S D"]  # of (s₀, π(s₀))
    owners: Int[np.ndarray, "K"]  # episodes


def fit_values(data: FQEData, config: FQEConfig) -> Float[np.ndarray, "R S 2"]:
    """What each network says of the first states: the mean reward per step, and the share of steps, discounted."""
    keys = jax.random.split(jax.random.key(config.seed), 2)
    rows = jnp.asarray(resampled_rows(data.owners, config.num_networks, config.seed))
    return np.asarray(_fit(_without_owners(data), rows, keys[0], keys[1], config))


def returns_of(values: Float[np.ndarray, "R S 2"], discount: float, horizon: int) -> Float[np.ndarray, "R S"]:
    """Undiscounted returns of episodes that are cut at the horizon.

    A constant rate h of ends gives a discounted share (1 − γ)/(1 − γ(1 − h)) of steps, and (1 − (1 − h)^H)/h of them.
    """
    rate, share = values[..., 0], np.clip(values[..., 1], 1e-6, 1.0)
    stays = np.clip((1 - (1 - discount) / share) / discount, 0.0, 1.0) if discount else np.zeros_like(share)
    ends = 1 - stays
    steps = np.where(ends > 1e-9, (1 - stays**horizon) / np.maximum(ends, 1e-9), horizon)
    return rate / share * steps


def resampled_rows(owners: Int[np.ndarray, "K"], count: int, seed: int) -> Int[np.ndarray, "R K"]:
    """For each network, the rows of as many episodes drawn with repetition, filled up to one length."""
    rng, episodes = np.random.default_rng(seed), np.unique(owners)
    order = np.argsort(owners, kind="stable")
    first = np.searchsorted(owners[order], episodes)
    last = np.searchsorted(owners[order], episodes, side="right")
    found = []
    for _ in range(count):
        drawn = rng.integers(0, len(episodes), len(episodes))
        rows = np.concatenate([order[first[e] : last[e]] for e in drawn])
        found.append(rng.permutation(rows)[rng.integers(0, len(rows), len(owners))])
    return np.stack(found).astype(np.int32)


def _without_owners(data: FQEData) -> FQEData:
    return FQEData(*(jnp.asarray(field) for field in data[:-1]), owners=jnp.zeros(0, jnp.int32))  # pyright: ignore


class _Learner(NamedTuple):
    """R networks side by side, every array with a leading R."""

    networks: Any
    targets: Any
    opt_state: optax.OptState


@eqx.filter_jit
def _fit(data: FQEData, rows: Array, key: PRNGKeyArray, draw_key: PRNGKeyArray, config: FQEConfig) -> Array:
    """One compiled loop over all steps of all networks."""
    span = jnp.stack([jnp.min(data.costs, axis=0), jnp.max(data.costs, axis=0)])
    low = jnp.minimum(span[0], jnp.where(jnp.all(data.continues == 1), span[0], 0.0))
    high = jnp.maximum(span[1], jnp.where(jnp.all(data.continues == 1), span[1], 0.0))
    shift, scale = jnp.mean(data.costs, axis=0), jnp.maximum(jnp.std(data.costs, axis=0), 0.1 * (high - low) + 1e-8)
    optimizer = optax.adam(optax.cosine_decay_schedule(config.lr, config.steps))
    sizes = (data.inputs.shape[-1], *config.hidden_sizes, 2)
    make = eqx.filter_vmap(lambda k: MLP.init(k, sizes, layer_norm=config.layer_norm))
    networks = make(jax.random.split(key, rows.shape[0]))
    arrays, static = eqx.partition(networks, eqx.is_array)

    def value(arrays: MLP, x: Array) -> Array:
        return eqx.combine(arrays, static)(x) * scale + shift

    def loss(arrays: MLP, x: Array, target: Array) -> Array:
        return jnp.mean(jnp.square((value(arrays, x) - target) / scale))

    def one_step(learner: _Learner, own: Array, key: PRNGKeyArray) -> _Learner:
        batch = own[jax.random.randint(key, (config.batch_size,), 0, own.shape[0])]
        ahead = value(learner.targets, data.next_inputs[batch]) * data.continues[batch, None]
        target = jnp.clip((1 - config.discount) * data.costs[batch] + config.discount * ahead, low, high)
        gradient = jax.grad(loss)(learner.networks, data.inputs[batch], target)
        updates, opt_state = optimizer.update(gradient, learner.opt_state)
        moved = optax.apply_updates(learner.networks, updates)
        targets = jax.tree.map(lambda t, n: t + config.tau * (n - t), learner.targets, moved)
        return _Learner(moved, targets, opt_state)

    def step(learner: _Learner, number: Array) -> tuple[_Learner, None]:
        keys = jax.random.split(jax.random.fold_in(draw_key, number), rows.shape[0])
        return jax.vmap(one_step)(learner, rows, keys), None

    begin = _Learner(arrays, arrays, jax.vmap(optimizer.init)(arrays))
    learner, _ = jax.lax.scan(step, begin, jnp.arange(config.steps))
    found = jax.vmap(value, (0, None))(learner.targets, data.starts)
    return jnp.clip(found, low, high)
