import numpy as np
import pytest

from environment_cases import make
from ploff.environments import adroit

pytest.importorskip("mujoco")


def test_the_horizon_cuts_and_does_not_end():
    env = make("door", max_episode_steps=2)
    env.reset(seed=0)
    still = np.zeros(env.action_space.shape, np.float32)
    assert env.step(still)[2:4] == (False, False)
    assert env.step(still)[2:4] == (False, True)


@pytest.mark.parametrize("name", ["door", "hammer", "relocate"])
def test_the_palm_is_drawn_to_its_object_whatever_the_release_says(name):
    pytest.importorskip("gymnasium_robotics")
    rewards, distances = [], []
    env = make(name)
    base = env.unwrapped
    palm = base.grasp_site_id if name == "door" else base.S_grasp_site_id
    for shift in (0.0, 0.3):
        env.reset(seed=5)
        base.model.site_pos[palm, 2] += shift
        rewards.append(env.step(np.zeros(env.action_space.shape, np.float32))[1])
        distances.append(adroit.palm_distance(base))
    assert np.diff(rewards)[0] == pytest.approx(-0.1 * np.diff(distances)[0], abs=1e-9)


def test_the_doors_reward_in_a_state_set_by_hand():
    env = make("door")
    base = env.unwrapped
    env.reset(seed=0)
    _, reward, *_ = env.step(np.zeros(env.action_space.shape, np.float32))
    hinge = base.data.qpos[base.door_hinge_addrs]
    palm, handle = base.data.site_xpos[base.grasp_site_id], base.data.site_xpos[base.handle_site_id]
    expected = -0.1 * np.linalg.norm(palm - handle) - 0.1 * (hinge - 1.57) ** 2
    expected -= 1e-5 * np.sum(base.data.qvel**2)
    assert hinge < 0.2  # closed: no bonus
    assert reward == pytest.approx(expected)


def test_a_sparse_reward_is_left_as_it_is():
    env = make("door", reward_type="sparse")
    env.reset(seed=0)
    assert env.step(np.zeros(env.action_space.shape, np.float32))[1] == pytest.approx(-0.1)


@pytest.mark.parametrize(("physics", "ends"), [("d4rl", True), ("gymnasium", False)])
def test_a_dropped_pen_ends_d4rls_episode(physics, ends):
    env = make("pen", physics)
    env.reset(seed=0)
    still = np.zeros(env.action_space.shape, np.float32)
    assert not env.step(still)[2]
    base = env.unwrapped
    position = base.data.qpos.copy()
    position[-6] += 0.3  # the pen's own x points down
    base.set_state(position, base.data.qvel.copy())
    assert env.step(still)[2] is ends
