"""Random finite MDPs and distances for property tests, and the axioms that they are held to."""

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import strategies as st

from ploff.theory import FiniteMDP, Operator, bellman
from ploff.theory.gridworld import Maze

# Few shapes: each one is compiled once.
SHAPES = ((1, 1), (2, 2), (3, 2), (4, 3))
REWARDS = st.floats(-2, 2, width=32)
DISCOUNTS = st.floats(0, 0.9)
SEEDS = st.integers(0, 2**32 - 1)
GAMMA = 0.5
SMALL_MAZE = Maze("#### #.G# #..# ####")
ROUNDING = 1e-9  # generous next to double precision's 1e-15, and far below any effect that is tested


@st.composite
def deterministic_mdps(draw) -> FiniteMDP:
    shape = draw(st.sampled_from(SHAPES))
    rewards = draw(hnp.arrays(np.float64, shape, elements=REWARDS))
    successors = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, shape[0] - 1)))
    return FiniteMDP.deterministic(successors, rewards)


@st.composite
def stochastic_mdps(draw) -> FiniteMDP:
    shape = draw(st.sampled_from(SHAPES))
    rewards = draw(hnp.arrays(np.float64, shape, elements=REWARDS))
    rng = np.random.default_rng(draw(SEEDS))
    concentration = draw(st.sampled_from([0.1, 1.0]))
    return FiniteMDP(rewards, rng.dirichlet(np.full(shape[0], concentration), size=shape))


@st.composite
def own_terms(draw, mdp: FiniteMDP) -> dict:
    """The settings of F (none) or of F_w (weights, metrics on states and actions, any ρ)."""
    num_states, num_actions = mdp.rewards.shape
    if not draw(st.booleans()):
        return {}
    rng = np.random.default_rng(draw(SEEDS))
    return {
        "state_weight": draw(st.floats(0, 2)),
        "state_distances": draw(st.sampled_from([None, random_pseudometric(num_states, rng)])),
        "action_weight": draw(st.floats(0, 2)),
        "action_distances": draw(st.sampled_from([None, random_pseudometric(num_actions, rng)])),
        "next_actions": rng.dirichlet(np.ones(num_actions)),
    }


@st.composite
def operators(draw) -> Operator:
    """F or F_w of a random deterministic MDP."""
    mdp = draw(deterministic_mdps())
    return bellman(mdp, discount=draw(DISCOUNTS), **draw(own_terms(mdp)))


def three_states() -> tuple[FiniteMDP, tuple[int, int, int]]:
    """x: the first action stays, the second goes to z. y: both go to z. z: both stay. Only z pays: 1."""
    x, y, z = 0, 1, 2
    return FiniteMDP.deterministic([[x, z], [z, z], [z, z]], [[0, 0], [0, 0], [1, 1]]), (x, y, z)


def coin() -> FiniteMDP:
    """State 0 goes to 1 or to 2, as a coin falls. 1 and 2 stay; 1 pays 1 a step, the others nothing."""
    probabilities = np.array([[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]])
    return FiniteMDP([[0.0], [1.0], [0.0]], probabilities[:, None])


def random_pseudometric(count: int, rng: np.random.Generator) -> np.ndarray:
    """Shortest paths between points at random distances, some of them 0."""
    edges = rng.exponential(size=(count, count)) * (rng.random((count, count)) > 0.2)
    paths = np.minimum(edges, edges.T)
    np.fill_diagonal(paths, 0.0)
    for middle in range(count):
        paths = np.minimum(paths, paths[:, [middle]] + paths[[middle]])
    return paths


def random_start(mdp: FiniteMDP, rng: np.random.Generator) -> np.ndarray:
    """A pseudometric on state-action pairs, shape [S, A, S, A]."""
    shape = mdp.rewards.shape
    return random_pseudometric(mdp.rewards.size, rng).reshape(*shape, *shape)


def assert_diffuse_metric(distances: np.ndarray) -> None:
    """All that is asked of a metric but that a point is at distance 0 from itself."""
    square = distances.reshape(int(np.sqrt(distances.size)), -1)
    assert (square >= -ROUNDING).all()
    np.testing.assert_allclose(square, square.T, atol=ROUNDING)
    through = square[:, :, None] + square[None]  # [x, y, z]: from x over y to z
    assert (square[:, None] <= through + ROUNDING).all()


def assert_pseudometric(distances: np.ndarray) -> None:
    assert_diffuse_metric(distances)
    square = distances.reshape(int(np.sqrt(distances.size)), -1)
    np.testing.assert_allclose(np.diag(square), 0.0, atol=ROUNDING)


def gap(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.max(np.abs(one - other)))
