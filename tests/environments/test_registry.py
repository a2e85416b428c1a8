import dataclasses
import sys

import gymnasium as gym
import numpy as np
import pytest

from environment_cases import D4RL, make
from ploff import environments
from ploff.environments import registry
from ploff.environments.collection import collect
from ploff.environments.eval_env import find_eval_env
from ploff.utils.errors import MissingExtraError, PloffError, PloffWarning, UnknownNameError

pytest.importorskip("mujoco")

HORIZONS = {"pen": 100, "hammer": 200, "door": 200, "relocate": 200}


@pytest.mark.parametrize("physics", ["d4rl", "gymnasium"])
@pytest.mark.parametrize("name", D4RL)
def test_every_name_can_be_made_and_stepped_in_both_physics(name, physics):
    env = make(name, physics)
    observation, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(observation, again)
    following, reward, terminal, cut, _ = env.step(np.zeros(env.action_space.shape, np.float32))
    assert following.shape == observation.shape == env.observation_space.shape
    assert np.isfinite(following).all()
    assert np.isfinite(reward)
    assert (terminal, cut) == (False, False)


@pytest.mark.parametrize("name", D4RL)
def test_episodes_last_as_long_as_d4rls(name):
    env = make(name)
    limit = env.get_wrapper_attr("_max_episode_steps")
    assert limit == HORIZONS.get(name, 1000)


def test_environments_can_be_registered_but_not_over_d4rls(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    environments.register("my-pole", lambda **options: gym.make("CartPole-v1", **options))
    env = make("my-pole", max_episode_steps=7)
    assert env.spec is not None
    assert env.spec.max_episode_steps == 7
    with pytest.raises(PloffError, match="another name"):
        environments.register("hopper", lambda **options: gym.make("CartPole-v1", **options))


def test_unknown_names_bring_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'hopper'"):
        make("hoper")
    with pytest.raises(UnknownNameError, match=r"'CartPole-v1'"):
        make("Cartpole-v1")
    with pytest.raises(UnknownNameError, match="unknown physics 'mujoco-py'"):
        make("hopper", "mujoco-py")
    with pytest.raises(UnknownNameError, match="did you mean 'walker2d'"):
        environments.reference_scores("walker")


def test_an_option_that_d4rls_task_does_not_have_is_refused():
    with pytest.raises(PloffError, match="has no option 'healthy_reward'"):
        make("hopper", healthy_reward=2.0)
    env = make("hopper", "gymnasium", healthy_reward=2.0)
    env.reset(seed=0)
    assert env.step(np.zeros(3))[1] > 1.5


@pytest.mark.parametrize(
    ("missing", "name", "extra"),
    [
        ("mujoco", "hopper", "mujoco"),
        ("gymnasium_robotics", "pen", "robotics"),
        ("mujoco", "Ant-v5", "mujoco"),
    ],
)
def test_a_missing_extra_is_named(missing, name, extra, monkeypatch):
    for module in [module for module in sys.modules if module.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=rf"ploff\[{extra}\]"):
        make(name)


def test_only_environments_that_every_process_knows_are_made_in_others(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {"here": lambda **_: None})
    monkeypatch.setitem(gym.registry, "Mine-v0", gym.envs.registration.EnvSpec("Mine-v0", lambda: None))
    its = gym.envs.registration.EnvSpec("Its-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    monkeypatch.setitem(gym.registry, "Its-v0", its)
    known = ("hopper", "CartPole-v1", "package:Its-v0")
    assert all(map(registry.known_everywhere, known))
    assert not any(map(registry.known_everywhere, ("here", "Mine-v0", "Its-v0", "Nobody-v0")))


def test_an_environment_that_cannot_be_imported_is_one_line():
    with pytest.raises(PloffError, match="Gymnasium cannot make 'no_such_package:Foo-v0'"):
        registry.make("no_such_package:Foo-v0")


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module that leaves a mark where it is imported."""
    (tmp_path / "planted_env.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "was-run"
    assert not (tmp_path / "was-run").exists()


def test_a_log_imports_nothing(planted):
    data = collect("Pendulum-v1", transitions=20)
    for change in ({"environment": "planted_env:Env-v0"}, {"options": '{"xml_file": "../../etc/model.xml"}'}):
        named = dataclasses.replace(data, origin=dataclasses.replace(data.origin, **change))
        with pytest.warns(PloffWarning, match="policies are not evaluated: .*--environment"):
            assert find_eval_env(named, None, None) is None
