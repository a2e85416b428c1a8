"""Pictures of a learned pseudometric: its losses over training, and how it sees noise (the paper's Figures 3 and 4).

Both are in the paper's units and in ours. The paper shows losses as they are, squares of distances, and noise in the
data's own units. Neither can be compared between logs. Ours are the root of a loss as a share of the mean distance, and
noise in standard deviations of the log's states and in half an action's range.
"""

import os
import pathlib
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ploff.metric.train import LearnedMetric
from ploff.report import states
from ploff.report.figures.canvas import new_figure, save_figure
from ploff.report.figures.states import draw_state_rows
from ploff.transitions import Transitions
from ploff.utils.errors import PloffWarning
from ploff.utils.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE_SIZES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
Units = Literal["paper", "log"]
UNITS: dict[Units, dict[str, str]] = {  # what a size is measured in
    "paper": {"action": "in the action's own units (as in the paper)", "state": "in its own units (as in the paper)"},
    "log": {"action": "in half an action's range", "state": "in standard deviations of the log"},
}


def draw_metric_figures(
    learned: LearnedMetric,
    data: Transitions,
    folder: str | os.PathLike[str],
    names: Mapping[str, Sequence[str]] | None = None,
) -> list[pathlib.Path]:
    """Writes losses.png and noise.png into a folder; states.csv, and states.png where states can be drawn.

    Args:
      learned: the metric.
      data: the log that it was learned from.
      folder: where the files go.
      names: what the log's table calls its observations and actions.
    """
    place, written = pathlib.Path(folder), []
    figures = {"losses.png": draw_losses(learned), "noise.png": draw_noise(learned, data)}
    if states.can_be_drawn(data):
        try:
            figures["states.png"] = draw_state_rows(data.origin.name, states.draw_states(learned, data))
        except Exception as error:  # drawing depends on drivers that fail in ways of their own
            warnings.warn(f"states cannot be drawn here ({type(error).__name__}: {error})", PloffWarning, stacklevel=2)
    for name, figure in figures.items():
        save_figure(figure, place / name)
        written.append(place / name)
    if len(data.observation_shape) == 1:
        write_text(place / "states.csv", states.state_table(learned, data, names).csv())
        written.append(place / "states.csv")
    return written


def draw_losses(learned: LearnedMetric) -> "Figure":
    """Both losses over steps as the paper has them (Figure 3), and beside the distances; the bound, and the checks."""
    figure = new_figure(10, 5.6)
    axes, rows = figure.subplots(2, 3), learned.history
    steps = [row["step"] for row in rows]
    for column, (name, title) in enumerate((("phi_loss", "loss of Φ"), ("psi_loss", "loss of Ψ"))):
        axes[0, column].plot(steps, [row[name] for row in rows], color="C0", linewidth=1)
        axes[0, column].set(title=f"{title}, as in the paper", xlabel="step", ylabel="squared distance", ylim=(0, None))
        axes[1, column].plot(steps, relative_losses(learned, name), color="C0", linewidth=1)
        axes[1, column].set(
            title=f"root of the {title}", xlabel="step", ylabel="% of the mean distance", ylim=(0, None)
        )
    axes[0, 2].plot(steps, [row["max_distance"] for row in rows], color="C1", label="largest")
    axes[0, 2].plot(steps, [row["mean_distance"] for row in rows], color="C0", label="mean")
    axes[0, 2].axhline(learned.bound, color="black", linestyle=":", label="bound")
    axes[0, 2].set(title="distance", xlabel="step", ylim=(0, None))
    axes[0, 2].legend(frameon=False)
    for name, label in (("support_auc", "support"), ("noise_auc", "noise"), ("neighbor_overlap", "neighbor overlap")):
        if found := [row for row in learned.checks if name in row]:
            axes[1, 2].plot([row["step"] for row in found], [row[name] for row in found], ".-", label=label)
    axes[1, 2].set(title="checks", xlabel="step", ylim=(0, 1.02), xlim=(0, 1.03 * steps[-1]))
    if learned.checks:
        axes[1, 2].legend(frameon=False)
    return figure


def relative_losses(learned: LearnedMetric, name: str) -> np.ndarray:
    """The root of a loss in percent of the mean distance, for each row of the history; NaN where that is 0."""
    loss, mean = (np.array([row[key] for row in learned.history], np.float64) for key in (name, "mean_distance"))
    return np.where(mean > 0, 100 * np.sqrt(loss) / np.where(mean > 0, mean, 1.0), np.nan)


def noise_distances(
    learned: LearnedMetric, data: Transitions, units: Units = "log", rows: int = 2000, seed: int = 0
) -> dict[str, np.ndarray]:
    """Distances of logged pairs to noisy copies, [noise size, row], with the noise on the action and on the state.

    Noise is Gaussian. Of discrete actions, a share equal to the size is replaced by random ones.

    Args:
      learned: the metric.
      data: the log.
      units: "log": half an action's range, and a state dimension's standard deviation. "paper": those of the data.
      rows: how many pairs.
      seed: chooses the pairs and the noise.
    """
    raw = data.in_original_units()
    spread = raw.with_normalized_observations().observation_normalizer.scale
    spread, half_range = (spread, 1.0) if units == "log" else (1.0, np.asarray(data.action_space.unit))
    keys = jax.random.split(jax.random.key(seed), 4)
    batch = raw.batch(jax.random.randint(keys[0], (rows,), 0, len(data)))
    space, metric, normalize = data.action_space, learned.metric, learned.observation_normalizer.normalize
    observations = normalize(batch.observations)
    logged = metric.embed_pairs(observations, batch.actions)
    action_noise = jax.random.normal(keys[1], batch.actions.shape)
    state_noise = jax.random.normal(keys[2], batch.observations.shape) * spread
    others = space.sample(keys[3], rows)

    def with_noisy_action(size: float) -> jax.Array:
        if space.kind == "discrete":
            actions = jnp.where(jnp.arange(rows)[:, None] < size * rows, others, batch.actions)
        else:
            actions = space.perturb(batch.actions, size * action_noise / half_range)
        return metric.pair_distance(logged, metric.embed_pairs(observations, actions))

    def with_noisy_state(size: float) -> jax.Array:
        noisy = normalize(batch.observations + size * state_noise)
        return metric.pair_distance(logged, metric.embed_pairs(noisy, batch.actions))

    return {
        "action": np.stack([with_noisy_action(size) for size in NOISE_SIZES]),
        "state": np.stack([with_noisy_state(size) for size in NOISE_SIZES]),
    }


def draw_noise(learned: LearnedMetric, data: Transitions) -> "Figure":
    """The distribution of d between a logged pair and a noisy copy, against the size of the noise (Figure 4)."""
    figure = new_figure(8, 6)
    for axes, (units, about) in zip(figure.subplots(2, 2), UNITS.items(), strict=True):
        for axis, (what, distances) in zip(axes, noise_distances(learned, data, units).items(), strict=True):
            axis.boxplot(list(distances), showfliers=False, tick_labels=[f"{size:g}" for size in NOISE_SIZES])
            axis.set(title=f"noise on the {what}", xlabel=f"size, {about[what]}", ylabel="distance to the logged pair")
    return figure
