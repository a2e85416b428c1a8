"""Learning the pseudometric: the state, and the update that takes a gradient step on both losses."""

import dataclasses
import math

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ploff.actions import ActionSpace
from ploff.metric.losses import Info, literal_losses, shared_losses
from ploff.metric.pseudometric import MetricConfig, Pseudometric, build_metric, distance_bound, sees_ends
from ploff.training.train_state import TrainState, polyak_update
from ploff.transitions import Transitions


class MetricState(eqx.Module):
    """Everything that an update reads and writes."""

    metric: TrainState[Pseudometric]
    mean_distance: Float[Array, ""]  # moving average of the learned distance between two logged pairs


def init(key: PRNGKeyArray, data: Transitions, config: MetricConfig) -> MetricState:
    """Draws networks for a log, whose rewards and observations are in the units to be trained in."""
    limit, has_end = distance_bound(data, config), sees_ends(data, config)
    metric = build_metric(key, data.input_shape, data.action_space, config, limit, has_end=has_end)
    return init_from(metric, config)


def init_from(metric: Pseudometric, config: MetricConfig) -> MetricState:
    """The state before the first update: the target equals the networks."""
    return MetricState(TrainState.init(metric, optax.adam(config.lr), with_target=True), jnp.zeros(()))


def update(
    state: MetricState, data: Transitions, rows: Array, key: PRNGKeyArray, config: MetricConfig
) -> tuple[MetricState, Info]:
    """Takes one gradient step on both losses, from rows of the log drawn among `rows`."""
    losses = shared_losses if config.estimator == "shared" else literal_losses
    target = state.metric.target
    metric, _, info = state.metric.apply_gradient(
        optax.adam(config.lr), lambda metric: losses(metric, target, data, rows, key, config)
    )
    mean_distance = polyak_update(state.mean_distance, info["mean_distance"], config.tau)
    return MetricState(metric.update_target(config.tau), mean_distance), info


def finished_metric(
    state: MetricState, space: ActionSpace, action_distance: float, config: MetricConfig
) -> Pseudometric:
    """The metric that training has reached: averaged networks, and the actions' own term.

    `action_weight` is the share of that term: at 1, it weighs as much between two logged pairs as the learned
    distance, on average. So w = action_weight · mean learned distance / mean |a₁ − a₂|, whatever the units.
    """
    w = config.action_weight * float(state.mean_distance) / (action_distance or 1.0)
    scale = w / (space.unit * math.sqrt(space.width))
    return dataclasses.replace(state.metric.target, action_scale=tuple(float(x) for x in scale))
