r"""What closeness to the data is worth: the paper's three bonuses, a mean and a density (paper, section 4.2).

    value:    b = Q̄ e^{−βd}       exp:  b = e^{−βd}       penalty:  b = 1 − e^{βd}       d = min_i d_i
    mean:     b = −½ Σ_i p_i d_i²
    density:  b = (1/β) log Σ_i p_i e^{−β d_i² / 2}                       p_i ∝ e^{κ z_i − ρ D_i² / 2}

d_i are the distances to the k pairs logged nearby. The first three look at the nearest alone: any logged action is as
good as another. The mean asks for the action that was usual there; it pulls to one place from wherever the policy is,
and ever harder the farther that is. The density chooses among several such places: it becomes the mean as β falls to
0, and −d²/2 of the nearest as β grows.

The weights say whose evidence counts. D_i is the distance of the i-th state itself: with ρ > 0, evidence from states
more alike counts for more, the state's own action for most. z_i is the value that the critic gives the i-th pair, less
the mean over the k, in units of their deviation. Neighbors are alike in what they lead to, so where their values
differ, their actions are the reason: with κ > 0 the better ones count for more.

What the critic's target adds to the reward, `next_value_with_bonus`:

    contractive:  value:  γ Q̄ (1 + α e^{−βd}) / (1 + α)        others:  γ (Q̄ + α b)
    paper:        γ Q̄ + α b

With the bonus `value`, the printed sum has the gain γ + α e^{−βd} on Q̄: above 1 near the data, so Q grows without end.
Divided by its own weights it is a contraction for every α and β. The others do not multiply Q̄, and contract as they
stand.

Shapes: B rows, k neighbors.
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Bonus = Literal["mean", "density", "value", "exp", "penalty"]
WEIGHTED: tuple[Bonus, ...] = ("mean", "density")  # these look at all neighbors
CriticForm = Literal["contractive", "paper"]


def bonus(
    form: Bonus,
    q: Float[Array, "B"],
    distances: Float[Array, "B k"],
    beta: float,
    log_weights: Float[Array, "B k"] | None = None,
) -> Float[Array, "B"]:
    """b(s, a), from Q̄(s, a) and the distances of (s, a) to the pairs logged nearby.

    Args:
      form: which bonus.
      q: Q̄(s, a), for the bonus that multiplies it.
      distances: d_i.
      beta: β.
      log_weights: log p_i, for the mean and the density; all alike by default.
    """
    if form == "mean":
        return mean_closeness(distances, log_weights)
    if form == "density":
        return log_density(distances, beta, log_weights)
    nearest = jnp.min(distances, axis=-1)
    if form == "penalty":
        return 1.0 - jnp.exp(beta * nearest)
    closeness = jnp.exp(-beta * nearest)
    return q * closeness if form == "value" else closeness


def mean_closeness(distances: Float[Array, "B k"], log_weights: Float[Array, "B k"] | None = None) -> Float[Array, "B"]:
    """−½ Σ_i p_i d_i²."""
    weights = 1.0 / distances.shape[-1] if log_weights is None else jnp.exp(log_weights)
    return -0.5 * jnp.sum(weights * jnp.square(distances), axis=-1)


def log_density(
    distances: Float[Array, "B k"], beta: float, log_weights: Float[Array, "B k"] | None = None
) -> Float[Array, "B"]:
    """(1/β) log Σ_i p_i e^{−β d_i² / 2}: at most 0, and 0 only where all neighbors that count are at distance 0."""
    if log_weights is None:
        log_weights = jnp.full_like(distances, -math.log(distances.shape[-1]))
    exponents = log_weights - 0.5 * beta * jnp.square(distances)
    return jax.nn.logsumexp(exponents, axis=-1) / beta


def log_weights(
    q_values: Float[Array, "B k"],
    state_distances_sq: Float[Array, "B k"],
    value_temperature: float,
    state_kernel: float,
) -> Float[Array, "B k"]:
    """Computes log p_i from the critic's values of the logged pairs and the distances of their states.

    Args:
      q_values: values of the pairs; only how they differ within a row counts.
      state_distances_sq: D_i².
      value_temperature: κ.
      state_kernel: ρ.
    """
    scores = value_temperature * standard_scores(q_values)
    return jax.nn.log_softmax(scores - 0.5 * state_kernel * state_distances_sq, axis=-1)


def standard_scores(values: Float[Array, "*B k"]) -> Float[Array, "*B k"]:
    """Values less their mean, in units of their deviation, over the last axis; zeros where all are alike."""
    centered = values - jnp.mean(values, axis=-1, keepdims=True)
    deviation = jnp.sqrt(jnp.mean(jnp.square(centered), axis=-1, keepdims=True))
    return centered / jnp.maximum(deviation, 1e-6)


def next_value_with_bonus(
    form: Bonus,
    critic_form: CriticForm,
    q: Float[Array, "B"],
    distances: Float[Array, "B k"],
    *,
    discount: float,
    weight: float,
    beta: float,
    log_weights: Float[Array, "B k"] | None = None,
) -> Float[Array, "B"]:
    """What the target adds to the reward where the process went on; `weight` is α_c, the others as for `bonus`."""
    earned = bonus(form, q, distances, beta, log_weights)
    if critic_form == "paper":
        return discount * q + weight * earned
    if form == "value":
        return discount * (q + weight * earned) / (1.0 + weight)
    return discount * (q + weight * earned)
