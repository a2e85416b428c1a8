"""Where policies are evaluated: what the log or the user names, made once to see that it fits."""

import dataclasses

import pytest

from experiment_cases import swings
from metric_cases import random_log
from ploff import PloffError, datasets
from ploff.environments.eval_env import find_eval_env
from ploff.utils.errors import PloffWarning


def test_the_log_names_its_environment_and_the_user_another():
    env = find_eval_env(swings(), None, None)
    assert env is not None
    assert (env.environment, env.references) == ("Pendulum-v1", None)
    assert find_eval_env(swings(), "none", None) is None
    assert find_eval_env(random_log(), None, None) is None
    with pytest.raises(PloffError, match="MountainCarContinuous-v0 has observations"):
        find_eval_env(swings(), "MountainCarContinuous-v0", None)


def test_the_options_of_a_logs_environment_are_for_no_other_environment(tmp_path):
    brief = dataclasses.replace(swings().origin, environment="Pendulum-v1", options='{"max_episode_steps": 7}')
    data = dataclasses.replace(swings(), origin=brief)
    env = find_eval_env(data, "Pendulum-v1", None)
    assert env is not None
    assert env.options == {"max_episode_steps": 7}
    datasets.save(data, tmp_path / "log.npz")
    assert datasets.load(tmp_path / "log.npz", environment="MountainCarContinuous-v0").origin.options == "{}"


def test_a_logs_own_environment_that_cannot_be_made_is_a_warning():
    odd = dataclasses.replace(swings().origin, options='{"color": 1}')
    with pytest.warns(PloffWarning, match="policies are not evaluated: Pendulum-v1 cannot be made with color"):
        assert find_eval_env(dataclasses.replace(swings(), origin=odd), None, None) is None
