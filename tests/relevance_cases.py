"""A log whose relevance is known: a few columns that matter, and others that mean nothing."""

import numpy as np

from ploff import ActionSpace, Transitions
from ploff.relevance import RelevanceConfig

QUICK = RelevanceConfig(steps=1_000, check_every=250, members=1, hidden_sizes=(32, 32), batch_size=128)
MEANINGFUL = 3


def log_with_noise(noise: int = 5, episodes: int = 40, length: int = 50, seed: int = 0) -> Transitions:
    """Three columns that an action drives, that it follows, and that pay; behind them slow walks of their own."""
    rng = np.random.default_rng(seed)
    count = episodes * length
    states, walks = np.zeros((count, MEANINGFUL)), np.zeros((count, noise))
    actions, rewards = np.zeros((count, 2)), np.zeros(count)
    for first in range(0, count, length):
        state, walk = rng.normal(size=MEANINGFUL), rng.normal(size=noise)
        for row in range(first, first + length):
            action = np.clip(np.tanh(state[:2]) + 0.3 * rng.normal(size=2), -1, 1)
            states[row], walks[row], actions[row] = state, walk, action
            rewards[row] = state[2] - state[0]
            push = np.array([action[0], action[1], action[0] - action[1]])
            state = 0.8 * state - 0.5 * push + 0.2 * rng.normal(size=MEANINGFUL)
            walk = 0.95 * walk + 0.3 * rng.normal(size=noise)
    return Transitions.from_rows(
        observations=np.concatenate([states, walks], axis=1).astype(np.float32),
        actions=actions.astype(np.float32),
        rewards=rewards.astype(np.float32),
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % length == length - 1,
        action_space=ActionSpace.box([-1.0, -1.0], [1.0, 1.0]),
    )
