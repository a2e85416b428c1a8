"""Logged states and the states nearest to them under d_Ψ (the paper's appendix C).

Locomotion is drawn: its states are poses of a body. Of any other log the rows are shown, under their columns' names.
"""

import base64
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import UInt8

from ploff import environments
from ploff.experiments.tables import Table
from ploff.metric.train import LearnedMetric
from ploff.neighbors import embed_logged_states
from ploff.tasks import tasks_of
from ploff.transitions import Transitions
from ploff.utils.errors import require

ROWS, NEIGHBORS = 3, 4
SIZE = 160  # pixels


@dataclasses.dataclass(frozen=True)
class Picture:
    """A state as it looks, how far it is from the first of its row, and where it stands in the log."""

    pixels: UInt8[np.ndarray, "H W 3"]
    distance: float
    episode: int
    step: int

    @property
    def address(self) -> str:
        """The picture as a data: address."""
        imageio = require("imageio.v3", extra="mujoco")
        encoded = base64.b64encode(imageio.imwrite("<bytes>", self.pixels, extension=".png")).decode()
        return f"data:image/png;base64,{encoded}"


def can_be_drawn(data: Transitions) -> bool:
    """Whether the log's states are those of a body that can be put into any pose."""
    return data.origin.environment in tasks_of("locomotion")


def nearest_states(
    learned: LearnedMetric, data: Transitions, rows: int = ROWS, count: int = NEIGHBORS, seed: int = 0
) -> list[list[tuple[int, float]]]:
    """For some logged states: the row itself, and the nearest row of each of the `count` nearest other episodes.

    Steps of one episode follow closely on each other, so that they would be each other's neighbors under any distance.
    """
    seen = learned.in_units_of(data)
    embedded = np.asarray(embed_logged_states(learned.metric, seen.to_device()))[: len(data)]
    episodes = np.repeat(np.arange(len(data.episode_lengths())), data.episode_lengths())
    chosen = np.sort(np.random.default_rng(seed).choice(len(data), min(rows, len(data)), replace=False))
    found = []
    for row in chosen:
        distances = np.linalg.norm(embedded - embedded[row], axis=1)
        distances[episodes == episodes[row]] = np.inf
        order = np.argsort(distances, kind="stable")
        _, first = np.unique(episodes[order], return_index=True)
        nearest = [int(place) for place in order[np.sort(first)] if np.isfinite(distances[place])][:count]
        found.append([(int(row), 0.0), *((place, float(distances[place])) for place in nearest)])
    return found


def state_table(learned: LearnedMetric, data: Transitions, names: Mapping[str, Sequence[str]] | None = None) -> Table:
    """The same states as rows: where each stands in the log, how far it is from the first, and what it is.

    Args:
      learned: the metric.
      data: the log, whose observations are vectors.
      names: what the log's table calls its observations and actions; they are numbered where it does not say.
    """
    raw, rows = data.in_original_units(), []
    wide = np.atleast_2d(np.asarray(raw.actions[:1]).T).shape[0]
    called = [*_names("observation", names, data.observation_shape[0]), *_names("action", names, wide)]
    for number, found in enumerate(nearest_states(learned, data)):
        for place, distance in found:
            episode, step = data.locate(place)
            values = [*np.ravel(raw.observations[place]), *np.ravel(raw.actions[place]), raw.rewards[place]]
            told = ["state" if distance == 0 else "near", str(episode), str(step), f"{distance:.4g}"]
            rows.append((str(number), *told, *(f"{float(value):.6g}" for value in values)))
    header = ("group", "", "episode", "step", "distance", *called, "reward")
    return Table("Logged states, and the nearest ones of other episodes", header, tuple(rows))


def _names(field: str, names: Mapping[str, Sequence[str]] | None, width: int) -> list[str]:
    given = list((names or {}).get(f"{field}s", ()))
    return given if len(given) == width else [f"{field} {number}" for number in range(width)]


def draw_states(learned: LearnedMetric, data: Transitions) -> list[list[Picture]]:
    """Rows of pictures: a logged state, then the nearest ones."""
    draw_without_a_screen()
    assert data.origin.environment is not None
    env = environments.make(data.origin.environment, "d4rl", render_mode="rgb_array", width=SIZE, height=SIZE)
    try:
        env.reset(seed=0)
        rows = nearest_states(learned, data)
        return [[_picture(env, data, place, distance) for place, distance in row] for row in rows]
    finally:
        env.close()


def draw_without_a_screen() -> None:
    """Lets MuJoCo draw into memory where there is no screen, unless someone has said otherwise."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")


def _picture(env, data: Transitions, row: int, distance: float) -> Picture:
    body = env.unwrapped
    observation = np.asarray(data.in_original_units().observations[row], np.float64)
    positions = body.model.nq - 1  # all but how far it has come, which is not observed
    body.set_state(np.concatenate([[0.0], observation[:positions]]), observation[positions:])
    return Picture(np.asarray(env.render(), np.uint8), distance, *data.locate(row))
