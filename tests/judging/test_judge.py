import numpy as np
import pytest

import ploff
from judging_cases import FAST, always, two_states
from ploff.judging import Judge, JudgeConfig, JudgedLog, LogDistance

CONFIG = JudgeConfig(cloning_steps=0, fqe=FAST)


@pytest.fixture(scope="module")
def judge():
    data = two_states()
    return Judge(JudgedLog.of(data), LogDistance.l2(data), CONFIG)


def test_a_policy_that_is_better_and_one_that_is_worse_are_told_from_the_log(judge):
    up, down = judge.of(always(1.0), "up"), judge.of(always(-1.0), "down")
    assert up.value.value == pytest.approx(4.0, abs=1e-3)
    assert down.value.value == pytest.approx(0.0, abs=1e-3)
    assert up.logged.value == judge.log.data.episode_returns().mean()
    assert (up.verdict.answer, down.verdict.answer) == ("better", "not better")


def test_every_estimator_ranks_them_and_names_its_own(judge):
    for which in ("fqe-metric", "neighbors"):
        worth = [judge.estimate(judge.log.actions_of(always(a)), which).value for a in (-1.0, 1.0)]
        assert worth[1] - worth[0] > 2.5, which


def test_actions_that_nobody_took_are_outside_and_never_better():
    data = two_states(share=1.0)  # always up
    judgment = ploff.judge(always(-0.2), data, cloning_steps=0)
    assert judgment.support.outside == 1.0
    assert judgment.verdict.answer != "better"
    far = judgment.support.farthest[0]
    assert far.logged_action == (1.0,)
    assert far.policy_action == pytest.approx((-0.2,))


def test_the_log_itself_and_its_imitation_stand_beside_it():
    data = two_states()
    judgment = ploff.judge(always(1.0), data, cloning_steps=2, held_out=[0, 1, 2, 3, 4, 5])
    assert judgment.kept
    assert judgment.episodes == 6
    assert judgment.cloning is not None
    assert judgment.notes == ()
    told = judgment.to_json()
    assert told["verdict"] == judgment.verdict.answer
    assert len(told["support"]["farthest"]) <= 10
    assert set(told["support"]["outside_by_episode"]) == set("012345")


def test_logged_probabilities_bring_importance_sampling_along():
    import dataclasses

    data = two_states()
    data = dataclasses.replace(data, infos={"action_log_probs": np.full(len(data), np.log(0.5))})
    judgment = ploff.judge(always(1.0), data, cloning_steps=0)
    assert set(judgment.estimates) == {"neighbors", "importance"}
