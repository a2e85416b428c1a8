import numpy as np
import pytest

from environment_cases import LOCOMOTION, make
from ploff.environments import locomotion

pytest.importorskip("mujoco")


def test_the_cheetah_weighs_fourteen_and_the_others_what_their_old_capsules_do():
    masses = {name: make(name).unwrapped.model.body_mass.sum() for name in LOCOMOTION}
    assert masses["halfcheetah"] == pytest.approx(14.0)
    lengths = [(0.05, 0.4), (0.05, 0.45), (0.04, 0.5), (0.06, 0.39)]  # hopper's capsules: r, 2h
    assert masses["hopper"] == pytest.approx(sum(1000 * np.pi * r**2 * (h + r) for r, h in lengths))


@pytest.mark.parametrize("name", LOCOMOTION)
def test_reward_and_observation_are_gymnasiums_where_only_the_bodies_differ(name, monkeypatch):
    monkeypatch.setattr(locomotion, "restore_capsule_inertia", lambda *_: None)
    monkeypatch.setattr(locomotion, "restore_contact_margins", lambda *_: None)
    model = locomotion.LOCOMOTION_TASKS[name].model_file
    theirs = make(name, "gymnasium", **({} if model is None else {"xml_file": model}))
    ours = make(name)
    draw, falls = np.random.default_rng(0), 0
    for seed in range(3):
        np.testing.assert_array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
        for _ in range(100):
            action = draw.uniform(-1, 1, ours.action_space.shape)
            mine, reference = ours.step(action), theirs.step(action)
            np.testing.assert_allclose(mine[0], reference[0], rtol=1e-12, atol=1e-12)
            assert mine[2] == reference[2]
            bonus = 1.0 if mine[2] else 0.0  # Gymnasium pays no alive bonus in the step of a fall
            assert mine[1] == pytest.approx(reference[1] + bonus, abs=1e-9)
            if mine[2]:
                falls += 1
                break
    assert (falls > 0) == (name != "halfcheetah")


def test_actions_beyond_the_bounds_act_and_cost_as_the_bounds_do():
    env = make("halfcheetah")
    env.reset(seed=0)
    beyond = env.step(np.full(6, 3.0))
    env.reset(seed=0)
    at = env.step(np.ones(6))
    np.testing.assert_array_equal(beyond[0], at[0])
    assert beyond[1] == at[1]
