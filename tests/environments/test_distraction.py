import dataclasses
import json

import gymnasium as gym
import numpy as np
import pytest

from ploff import ActionSpace, Transitions, datasets
from ploff.environments.distraction import (
    Distracted,
    Distraction,
    NoiseColumns,
    distract,
    distraction_of,
    rotation,
)
from ploff.transitions import Origin
from ploff.utils.errors import PloffError


class Counting(gym.Env):
    """Observes the sum of the executed actions, and the steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.state = np.zeros(2)
        return self.state.copy(), {}

    def step(self, action):
        self.state += [float(action[0]), 1.0]
        return self.state.copy(), 0.0, False, False, {}


def small_log(episodes=6, length=30) -> Transitions:
    count = episodes * length
    states = np.random.default_rng(0).normal(3.0, 2.0, (count, 2)).astype(np.float32)
    return Transitions.from_rows(
        observations=states,
        next_observations=np.roll(states, -1, axis=0),
        actions=np.linspace(-2, 2, count, dtype=np.float32)[:, None],
        rewards=np.arange(count, dtype=np.float32),
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % length == length - 1,
        action_space=ActionSpace.box([-2.0], [2.0]),
        origin=Origin(name="small", environment="counting"),
    )


def test_walks_have_deviation_one_and_remember_the_step_before():
    columns = NoiseColumns(Distraction(walks=200)).episode(np.random.default_rng(0), 400)
    assert columns.shape == (400, 200)
    assert columns.std() == pytest.approx(1, abs=0.05)
    assert np.mean(columns[1:] * columns[:-1]) == pytest.approx(0.95, abs=0.05)


def test_a_log_gets_columns_that_go_on_in_its_successors():
    data = small_log()
    changed = distract(data, Distraction(walks=3, seed=1))
    assert changed.observation_shape == (5,)
    np.testing.assert_array_equal(np.asarray(changed.observations)[:, :2], np.asarray(data.observations))
    rows = np.arange(len(data))
    now, later = np.asarray(changed.observations)[rows, 2:], changed.next_observations(rows)[:, 2:]
    assert np.mean(now * later) / np.mean(now**2) == pytest.approx(0.95, abs=0.08)
    again, other = distract(data, Distraction(walks=3, seed=1)), distract(data, Distraction(walks=3, seed=2))
    assert changed.fingerprint() == again.fingerprint() != other.fingerprint()


def test_log_and_environment_are_mixed_by_the_same_rotation():
    data = small_log()
    changed = distract(data, Distraction(walks=2, rotate=True, seed=3))
    known = distraction_of(changed.origin)
    assert known is not None
    turned = rotation(4, 3)
    np.testing.assert_allclose(turned @ turned.T, np.eye(4), atol=1e-12)
    plain = np.asarray(changed.observations, np.float64) @ turned * known.scale + known.shift
    np.testing.assert_allclose(plain[:, :2], np.asarray(data.observations), atol=1e-4)
    env = Distracted(Counting(), known)
    env.reset(seed=0)
    for _ in range(3):
        observed = env.step(np.array([0.5], np.float32))[0]
    undone = (observed @ turned) * known.scale + known.shift
    np.testing.assert_allclose(undone[:2], [1.5, 3.0], atol=1e-9)


def test_noise_on_executed_actions_is_the_seeds_and_inside_the_bounds():
    def executed(seed):
        env = Distracted(Counting(), Distraction(action_noise=0.3))
        env.reset(seed=seed)
        sums = [env.step(np.array([1.9], np.float32))[0][0] for _ in range(300)]
        return np.diff([0.0, *sums])

    first = executed(0)
    np.testing.assert_array_equal(first, executed(0))
    assert not np.array_equal(first, executed(1))
    assert first.max() <= 2
    assert 0.2 < first.std() < 0.6


def test_another_logs_states_are_noise_too():
    columns = NoiseColumns(Distraction(noise_from="sample")).episode(np.random.default_rng(0), 50)
    assert columns.shape == (50, 17)
    sample = datasets.load("sample")
    states = np.asarray(sample.observations, np.float64)[: len(sample)]
    standard = (states - states.mean(axis=0)) / states.std(axis=0)
    assert np.abs(standard[:, None, 0] - columns[None, :, 0]).min(axis=0).max() < 1e-5


def test_a_file_keeps_what_its_environment_needs(tmp_path):
    changed = distract(small_log(), Distraction(walks=2, rotate=True))
    datasets.save(changed, tmp_path / "changed.npz")
    read = datasets.load(tmp_path / "changed.npz")
    assert distraction_of(read.origin) == distraction_of(changed.origin)


def test_what_cannot_be_distracted_is_said():
    data = small_log()
    with pytest.raises(PloffError, match="distracted already"):
        distract(distract(data, Distraction(walks=1)), Distraction(walks=1))
    with pytest.raises(PloffError, match="--action-noise"):
        distract(data, Distraction(action_noise=0.1))
    with pytest.raises(PloffError, match="vectors"):
        distract(dataclasses.replace(data, observations=np.zeros((len(data) + 6, 4, 4, 1))), Distraction(walks=1))
    with pytest.raises(PloffError):
        Distraction(walks=-1)
    noisy = dataclasses.replace(
        data, origin=dataclasses.replace(data.origin, options=json.dumps({"distraction": {"action_noise": 0.2}}))
    )
    assert distraction_of(distract(noisy, Distraction(walks=1)).origin).action_noise == 0.2
