"""Pictures of a learned pseudometric: its losses over training, and how it sees noise (the paper's Figures 3 and 4)."""

import os
import pathlib
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ploff.metric.train import LearnedMetric
from ploff.report.figures.canvas import new_figure, save_figure
from ploff.transitions import Transitions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE_SIZES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)


def draw_metric_figures(
    learned: LearnedMetric, data: Transitions, folder: str | os.PathLike[str]
) -> list[pathlib.Path]:
    """Writes losses.png and noise.png into a folder."""
    paths = [pathlib.Path(folder) / name for name in ("losses.png", "noise.png")]
    save_figure(draw_losses(learned), paths[0])
    save_figure(draw_noise(learned, data), paths[1])
    return paths


def draw_losses(learned: LearnedMetric) -> "Figure":
    """Both losses over steps, the mean distance against its bound, and the checks (Figure 3, and what it hides)."""
    figure = new_figure(11, 3)
    axes = figure.subplots(1, 4)
    steps = [row["step"] for row in learned.history]
    for axis, name, title in ((axes[0], "phi_loss", "loss of Φ"), (axes[1], "psi_loss", "loss of Ψ")):
        axis.plot(steps, [row[name] for row in learned.history], color="C0", linewidth=1)
        axis.set(title=title, xlabel="step", yscale="log")
    axes[2].plot(steps, [row["max_distance"] for row in learned.history], color="C1", label="largest")
    axes[2].plot(steps, [row["mean_distance"] for row in learned.history], color="C0", label="mean")
    axes[2].axhline(learned.bound, color="black", linestyle=":", label="bound")
    axes[2].set(title="distance", xlabel="step", ylim=(0, None))
    axes[2].legend(frameon=False)
    for name, label in (("support_auc", "support"), ("noise_auc", "noise"), ("neighbor_overlap", "neighbor overlap")):
        rows = [row for row in learned.checks if name in row]
        axes[3].plot([row["step"] for row in rows], [row[name] for row in rows], ".-", label=label)
    axes[3].set(title="checks", xlabel="step", ylim=(0, 1.02))
    axes[3].legend(frameon=False)
    return figure


def noise_distances(
    learned: LearnedMetric, data: Transitions, rows: int = 2000, seed: int = 0
) -> dict[str, np.ndarray]:
    """Distances of logged pairs to noisy copies, [noise size, row], with the noise on the action and on the state.

    Noise is Gaussian, in units of half an action's range and of a state dimension's standard deviation. Of discrete
    actions, a share equal to the size is replaced by random ones.
    """
    data = learned.in_units_of(data)
    spread = data.in_original_units().with_normalized_observations().observation_normalizer.scale
    keys = jax.random.split(jax.random.key(seed), 4)
    batch = data.batch(jax.random.randint(keys[0], (rows,), 0, len(data)))
    space, metric = data.action_space, learned.metric
    logged = metric.embed_pairs(batch.observations, batch.actions)
    action_noise = jax.random.normal(keys[1], batch.actions.shape)
    state_noise = jax.random.normal(keys[2], batch.observations.shape) * spread / data.observation_normalizer.scale
    others = space.sample(keys[3], rows)

    def with_noisy_action(size: float) -> jax.Array:
        if space.kind == "discrete":
            actions = jnp.where(jnp.arange(rows)[:, None] < size * rows, others, batch.actions)
        else:
            actions = space.perturb(batch.actions, size * action_noise)
        return metric.pair_distance(logged, metric.embed_pairs(batch.observations, actions))

    def with_noisy_state(size: float) -> jax.Array:
        noisy = batch.observations + size * state_noise
        return metric.pair_distance(logged, metric.embed_pairs(noisy, batch.actions))

    return {
        "action": np.stack([with_noisy_action(size) for size in NOISE_SIZES]),
        "state": np.stack([with_noisy_state(size) for size in NOISE_SIZES]),
    }


def draw_noise(learned: LearnedMetric, data: Transitions) -> "Figure":
    """The distribution of d between a logged pair and a noisy copy, against the size of the noise (Figure 4)."""
    figure = new_figure(8, 3)
    axes = figure.subplots(1, 2)
    for axis, (what, distances) in zip(axes, noise_distances(learned, data).items(), strict=True):
        axis.boxplot(list(distances), showfliers=False, tick_labels=[f"{size:g}" for size in NOISE_SIZES])
        axis.set(title=f"noise on the {what}", xlabel="size of the noise", ylabel="distance to the logged pair")
    return figure
