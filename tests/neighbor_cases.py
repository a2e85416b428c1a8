"""Points to search among, logs to measure distances in, and the slow answers that searches are held against."""

import numpy as np

from ploff.actions import ActionSpace
from ploff.metric.quality import Embedding
from ploff.neighbors import DataDistance, embed_logged_states
from ploff.neighbors.knn import Exhaustive, SearchConfig
from ploff.transitions import Transitions

APPROXIMATE = SearchConfig(num_neighbors=10, exact_work=0, sample=300)
BOX = ActionSpace.box([-1.0, -1.0], [1.0, 1.0])


def easy(count: int = 4000, seed: int = 0) -> np.ndarray:
    """A noisy curve in 8 dimensions: every point's neighbors are in a list or two."""
    rng = np.random.default_rng(seed)
    along = rng.uniform(0, 20, (count, 1))
    return np.sin(along * np.arange(1, 9) / 4).astype(np.float32) + 0.01 * rng.normal(size=(count, 8)).astype(
        np.float32
    )


def hard(count: int = 4000, seed: int = 0) -> np.ndarray:
    """Pure noise in 32 dimensions: neighbors are spread over all lists."""
    return np.random.default_rng(seed).normal(size=(count, 32)).astype(np.float32)


def brute_force(points: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """NumPy's answer, query by query in double precision."""
    points = points.astype(np.float64)
    squared = np.stack([np.square(points - x).sum(axis=1) for x in queries.astype(np.float64)])
    return np.argsort(squared, axis=1, kind="stable")[:, :k]


def log(count: int = 200, seed: int = 0, space: ActionSpace = BOX, episode: int = 20) -> Transitions:
    """States and actions that are pure noise, in episodes of one length."""
    rng = np.random.default_rng(seed)
    ends = np.arange(count) % episode == episode - 1
    actions = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    if space.kind == "discrete":
        actions = rng.integers(0, space.n, count)
    observations = rng.normal(size=(count + 1, 4)).astype(np.float32)
    return Transitions.from_rows(
        observations=observations[:-1],
        actions=actions,
        rewards=rng.uniform(size=count).astype(np.float32),
        terminals=np.zeros(count, bool),
        timeouts=ends,
        next_observations=observations[1:],
        action_space=space,
    )


def distance_of(metric: Embedding, data: Transitions, k: int = 10) -> DataDistance:
    """The distance to a log whose neighbors were searched exhaustively."""
    device = data.to_device()
    states = embed_logged_states(metric, device)
    near = Exhaustive(states[: len(data)]).query(states, min(k, len(data)))
    return DataDistance.init(metric, data, near)
