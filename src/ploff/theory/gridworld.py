"""The paper's gridworld (Figure 2): rooms, walls, one state that pays, 50 steps an episode.

The paper does not print its maze, so this one is ours, with the goal in a corner. Moves are certain; a move
into a wall stays where it is. Every step that ends in the goal pays 1, every other step 0. The goal is never
left, and reaching it does not end the episode: only the time limit does, so the log knows what follows in
every state, the goal included.

Shapes: S states (the free cells, numbered row by row), A = 4 actions (up, right, down, left).
"""

import dataclasses
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from jaxtyping import Float, Int

from ploff.actions import ActionSpace
from ploff.theory import FiniteMDP, Steps
from ploff.transitions import Origin, Transitions
from ploff.utils.errors import PloffError

ENVIRONMENT_ID = "ploff/Gridworld-v0"
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left: rows grow downwards
ROOMS = """
###########
#...#.#..G#
#...#.#...#
#.....#...#
#...#.#...#
#...#.....#
##.##.#...#
#...#.#####
#...#.#...#
#.........#
###########
"""


@dataclasses.dataclass(frozen=True)
class Maze:
    """Walls and a goal, drawn in text: `#` a wall, `.` a free cell, `G` the goal."""

    drawing: str = ROOMS

    def __post_init__(self):
        rows = self.rows
        if not rows or len({len(row) for row in rows}) != 1:
            raise PloffError("a maze needs rows of one length")
        if strange := set("".join(rows)) - set("#.G"):
            raise PloffError(f"a maze is drawn with '#', '.' and 'G', got {sorted(strange)}")
        if "".join(rows).count("G") != 1:
            raise PloffError("a maze needs one goal 'G'")

    @property
    def rows(self) -> list[str]:
        """The drawing, one string per row."""
        return self.drawing.split()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, walls included."""
        return len(self.rows), len(self.rows[0])

    @property
    def cells(self) -> Int[np.ndarray, "S 2"]:
        """Row and column of each state."""
        return np.argwhere(np.array([list(row) for row in self.rows]) != "#")

    @property
    def goal(self) -> int:
        """The state that pays."""
        row, column = np.argwhere(np.array([list(row) for row in self.rows]) == "G")[0]
        return self.state_at(int(row), int(column))

    @property
    def center(self) -> int:
        """The free cell that is nearest to the middle of the drawing."""
        middle = (np.array(self.shape) - 1) / 2
        return int(np.argmin(np.sum((self.cells - middle) ** 2, axis=1)))

    def state_at(self, row: int, column: int) -> int:
        """The number of a free cell."""
        found = np.flatnonzero((self.cells == (row, column)).all(axis=1))
        if not len(found):
            raise PloffError(f"row {row}, column {column} is no free cell of this maze")
        return int(found[0])

    def mdp(self) -> FiniteMDP:
        """The maze as a finite MDP."""
        number = {tuple(cell): state for state, cell in enumerate(self.cells)}
        successors = np.array(
            [[number.get((r + dr, c + dc), state) for dr, dc in MOVES] for (r, c), state in number.items()]
        )
        successors[self.goal] = self.goal
        return FiniteMDP.deterministic(successors, np.where(successors == self.goal, 1.0, 0.0))

    def grid(self, values: Any) -> Float[np.ndarray, "rows columns"]:
        """One value per state, laid out as the maze; NaN in walls."""
        laid_out = np.full(self.shape, np.nan)
        laid_out[tuple(self.cells.T)] = values
        return laid_out


class Gridworld(gymnasium.Env):
    """A maze to act in: one-hot states, four moves, uniform starts, cut after `time_limit` steps."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - Gymnasium's own form

    def __init__(self, maze: Maze | None = None, time_limit: int = 50, render_mode: str | None = None):
        self.maze = maze or Maze()
        self.mdp = self.maze.mdp()
        self.time_limit, self.render_mode = time_limit, render_mode
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (self.mdp.num_states,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(self.mdp.num_actions)
        self._state, self._steps = 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Starts anew in a state drawn uniformly, or in `options["state"]`."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(self.mdp.num_states))
        self._state, self._steps = int((options or {}).get("state", drawn)), 0
        return self._observation(), {"state": self._state}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Moves. The process never ends by itself; the time limit cuts it."""
        assert self.mdp.successors is not None
        reward = float(self.mdp.rewards[self._state, action])
        self._state = int(self.mdp.successors[self._state, action])
        self._steps += 1
        return self._observation(), reward, False, self._steps >= self.time_limit, {"state": self._state}

    def render(self) -> str:
        """The maze with an `@` where the agent is."""
        rows = [list(row) for row in self.maze.rows]
        row, column = self.maze.cells[self._state]
        rows[row][column] = "@"
        return "\n".join("".join(row) for row in rows)

    def _observation(self) -> Float[np.ndarray, "S"]:
        one_hot = np.zeros(self.mdp.num_states, np.float32)
        one_hot[self._state] = 1.0
        return one_hot


@dataclasses.dataclass(frozen=True, kw_only=True)
class QLearningConfig:
    """Tabular Q-learning, with the paper's numbers where it gives them."""

    episodes: int = 500
    exploration: float = 0.1  # ε: chance of a uniform action
    discount: float = 0.99  # γ
    lr: float = 0.5  # not given in the paper


class QLearningRun(NamedTuple):
    """What Q-learning learned, and what it saw."""

    values: Float[np.ndarray, "S A"]
    transitions: Transitions


def q_learning(maze: Maze | None = None, config: QLearningConfig | None = None, seed: int = 0) -> QLearningRun:
    """Learns to reach the goal, and logs every transition on the way."""
    config = config or QLearningConfig()
    world = Gridworld(maze)
    rng = np.random.default_rng(seed)
    values = np.zeros((world.mdp.num_states, world.mdp.num_actions))
    rows: list[tuple[int, int, float, int, bool]] = []
    for episode in range(config.episodes):
        _, info = world.reset(seed=seed if episode == 0 else None)
        cut = False
        while not cut:
            state = info["state"]
            action = _explore(values[state], config.exploration, rng)
            _, reward, _, cut, info = world.step(action)
            # The process goes on after the cut, so what follows counts there, too.
            target = reward + config.discount * values[info["state"]].max()
            values[state, action] += config.lr * (target - values[state, action])
            rows.append((state, action, reward, info["state"], cut))
    states, actions, rewards, next_states, cuts = map(np.asarray, zip(*rows, strict=True))
    steps = Steps(states, actions, rewards, next_states)
    return QLearningRun(values, _as_transitions(world.mdp, steps, cuts, "gridworld-q-learning"))


def full_coverage_log(maze: Maze | None = None) -> Transitions:
    """Every state-action pair once, each an episode of its own."""
    mdp = (maze or Maze()).mdp()
    assert mdp.successors is not None
    states, actions = (index.reshape(-1) for index in np.indices(mdp.rewards.shape))
    steps = Steps(states, actions, mdp.rewards.reshape(-1), mdp.successors.reshape(-1))
    return _as_transitions(mdp, steps, np.ones(len(states), bool), "gridworld-full-coverage")


def as_steps(transitions: Transitions) -> Steps:
    """A log with one-hot states as numbers: what the sampled operators take."""
    states = np.argmax(transitions.observations, axis=1)
    return Steps(
        states[: len(transitions)],
        np.asarray(transitions.actions),
        np.asarray(transitions.rewards, np.float64),
        states[np.asarray(transitions.successors)],
    )


def _explore(values: Float[np.ndarray, "A"], exploration: float, rng: np.random.Generator) -> int:
    """A uniform action with chance ε, else a best one; ties are drawn from, or the first move would rule."""
    if rng.random() < exploration:
        return int(rng.integers(len(values)))
    return int(rng.choice(np.flatnonzero(values == values.max())))


def _as_transitions(mdp: FiniteMDP, steps: Steps, cuts: np.ndarray, name: str) -> Transitions:
    one_hot = np.eye(mdp.num_states, dtype=np.float32)
    return Transitions.from_rows(
        observations=one_hot[steps.states],
        actions=steps.actions.astype(np.int32),
        rewards=steps.rewards.astype(np.float32),
        terminals=np.zeros(len(cuts), bool),
        timeouts=cuts,
        next_observations=one_hot[steps.next_states],
        action_space=ActionSpace.discrete(mdp.num_actions),
        origin=Origin(name=name, environment=ENVIRONMENT_ID),
    )


gymnasium.register(id=ENVIRONMENT_ID, entry_point="ploff.theory.gridworld:Gridworld")
