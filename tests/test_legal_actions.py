import dataclasses

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from discrete_cases import bandit_log, table
from ploff import datasets
from ploff.actions import ActionSpace
from ploff.agents.dataset import OfflineDataset
from ploff.agents.discrete.networks import GreedyPolicy
from ploff.agents.policy import Policy
from ploff.environments.rollouts import run_episodes
from ploff.legal_actions import legal_mask
from ploff.transitions import Normalizer
from ploff.utils.errors import DataError
from table_cases import COLUMNS, plant, write_parquet


def test_a_state_behind_an_episodes_end_has_all_actions():
    log = bandit_log(40, illegal=True)
    mask = legal_mask(log)
    assert mask is not None
    np.testing.assert_array_equal(mask[:40], log.infos["action_mask"])
    assert log.num_states > 40
    assert mask[40:].all()
    assert legal_mask(bandit_log(40)) is None
    np.testing.assert_array_equal(OfflineDataset.of(log).legal_actions(jnp.asarray([3, 40])), mask[[3, 40]])


def test_a_logged_action_must_be_legal():
    log = bandit_log(40, illegal=True)
    actions = np.array(log.actions)
    actions[7] = np.argmax(log.observations[7])
    with pytest.raises(DataError, match=f"action {actions[7]} was taken in row 7, where its mask forbids it"):
        legal_mask(dataclasses.replace(log, actions=actions))


def test_a_mask_comes_with_npz_files_and_with_a_tables_columns(tmp_path):
    log = bandit_log(40, illegal=True)
    datasets.save(log, tmp_path / "log.npz")
    read = datasets.load(tmp_path / "log.npz", choices=4)
    np.testing.assert_array_equal(legal_mask(read)[:40], log.infos["action_mask"])
    flags = [[i % 2 == 0, True] for i in range(24)]
    columns = plant() | {"valve": [1] * 24, "action_mask": flags, "terminal": [False] * 24}
    write_parquet(tmp_path / "plant.parquet", columns)
    read = datasets.load(tmp_path / "plant.parquet", columns=COLUMNS, choices=2)
    np.testing.assert_array_equal(legal_mask(read)[:24], flags)


class Forbidding(gymnasium.Env):
    """Pays 1 for a legal action; which of three that is changes at every step, and only the info says it."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def _info(self):
        self.legal = self.np_random.uniform(size=3) < 0.5
        self.legal[self.np_random.integers(3)] = True
        return {"action_mask": self.legal.astype(np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), self._info()

    def step(self, action):
        reward, self.steps = float(self.legal[action]), self.steps + 1
        return np.zeros(2, np.float32), reward, False, self.steps == 30, self._info()


def test_an_environments_mask_is_kept_to():
    policy = Policy(GreedyPolicy(table(np.eye(2, 3))), Normalizer.identity(), ActionSpace.discrete(3), (2,))
    scores = lambda observations, legal: np.tile([3.0, 2.0, 1.0], (len(observations), 1))  # noqa: E731
    for acting in (policy, scores):
        episodes = list(run_episodes(acting, [Forbidding(), Forbidding()], [0, 1, 2]))
        assert [sum(episode.rewards) for episode in episodes] == [30.0] * 3
