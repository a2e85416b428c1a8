"""Lengths, presets, and settings given by name."""

import typing

import pytest

from ploff import agents
from ploff.commands.train import Train
from ploff.experiments import config
from ploff.experiments.config import AgentTraining
from ploff.metric.train import MetricTraining
from ploff.utils.errors import PloffError, UnknownNameError


def test_settings_find_their_owner():
    given = {"batch_size": 8, "ploff.actor_bonus_weight": 2, "metric.batch_size": 4}
    owned = config.by_owner(given, ["bc", "ploff"])
    assert owned == {
        "bc": {"batch_size": 8},
        "ploff": {"batch_size": 8, "actor_bonus_weight": 2},
        "metric": {"batch_size": 4},
    }
    with pytest.raises(UnknownNameError, match="owner of a setting 'iql'"):
        config.by_owner({"iql.batch_size": 8}, ["bc"])


def test_presets_differ_in_length_and_the_papers_in_settings():
    assert AgentTraining.of("paper").steps == 500_000
    assert AgentTraining.of("quick", steps=None).steps < AgentTraining.of("default").steps
    assert AgentTraining.of("quick", steps=7).steps == 7
    printed = config.method_config(agents.get_method("ploff"), "paper", {"batch_size": "8"})
    assert (printed.critic_form, printed.batch_size) == ("paper", 8)
    assert config.method_config(agents.get_method("bc"), "paper", {}) == agents.get_method("bc").config()
    assert config.metric_training("paper", None).steps == 2_000_000
    assert config.metric_training("default", None) == MetricTraining()
    assert config.metric_training("quick", None).steps == 5_000
    assert config.metric_training("quick", 7).steps == 7


def test_an_unknown_preset_is_named():
    with pytest.raises(PloffError, match="unknown preset 'papr'; did you mean 'paper'"):
        config.check_preset("papr")


def test_the_command_and_the_library_know_the_same_presets():
    hints = typing.get_type_hints(Train)
    assert typing.get_args(hints["preset"]) == config.PRESETS


def test_compiled_calls_fit_between_evaluations():
    for every, length in ((5000, 1000), (700, 700), (1500, 750), (1009, 505), (10, 10)):
        assert AgentTraining(evaluate_every=every).scan_length == length
