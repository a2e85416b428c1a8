r"""What closeness to the data is worth: the paper's three bonuses and a density (paper, section 4.2).

    value:    b = Q̄ e^{−βd}       exp:  b = e^{−βd}       penalty:  b = 1 − e^{βd}       d = min_i d_i
    density:  b = log (1/k) Σ_i e^{−β d_i² / 2}

d_i are the distances to the k pairs logged nearby. The first three look at the nearest alone: any logged action is as
good as another. The density also asks how many there are, and unlike e^{−βd} keeps its pull far from the data.

What the critic's target adds to the reward, `backed_up`:

    contractive:  value:  γ Q̄ (1 + α e^{−βd}) / (1 + α)        others:  γ (Q̄ + α b)
    paper:        γ Q̄ + α b

With the bonus `value`, the printed sum has the gain γ + α e^{−βd} on Q̄: above 1 near the data, so Q grows without end.
Divided by its own weights it is a contraction for every α and β. The others do not multiply Q̄, and contract as they
stand.

Shapes: B rows, k neighbours.
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Bonus = Literal["density", "value", "exp", "penalty"]
CriticForm = Literal["contractive", "paper"]


def bonus(
    form: Bonus, value: Float[Array, "B"], distances: Float[Array, "B k"], sharpness: float
) -> Float[Array, "B"]:
    """b(s, a), from Q̄(s, a) and the distances of (s, a) to the pairs logged nearby; `sharpness` is β."""
    if form == "density":
        return log_density(distances, sharpness)
    nearest = jnp.min(distances, axis=-1)
    if form == "penalty":
        return 1.0 - jnp.exp(sharpness * nearest)
    closeness = jnp.exp(-sharpness * nearest)
    return value * closeness if form == "value" else closeness


def log_density(distances: Float[Array, "B k"], sharpness: float) -> Float[Array, "B"]:
    """Log (1/k) Σ_i e^{−β d_i² / 2}: at most 0, and 0 only where all neighbours are at distance 0."""
    exponents = -0.5 * sharpness * jnp.square(distances)
    return jax.nn.logsumexp(exponents, axis=-1) - math.log(distances.shape[-1])


def backed_up(
    form: Bonus,
    critic: CriticForm,
    value: Float[Array, "B"],
    distances: Float[Array, "B k"],
    *,
    discount: float,
    weight: float,
    sharpness: float,
) -> Float[Array, "B"]:
    """What the target adds to the reward where the process went on; `weight` is α_c."""
    earned = bonus(form, value, distances, sharpness)
    if critic == "paper":
        return discount * value + weight * earned
    if form == "value":
        return discount * (value + weight * earned) / (1.0 + weight)
    return discount * (value + weight * earned)
