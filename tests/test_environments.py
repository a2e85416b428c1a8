"""Environments: D4RL's physics by hand-made numbers, by Gymnasium's own where they agree, and by real logs."""

import os
import pathlib
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from ploff import environments
from ploff.environments import adroit, locomotion, older_mujoco, registry
from ploff.errors import MissingExtraError, PloffError, UnknownNameError

mujoco = pytest.importorskip("mujoco")

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("PLOFF_SHARED_DATA", ROOT.parent / "shared" / "data"))
D4RL = ["hopper", "halfcheetah", "walker2d", "pen", "hammer", "door", "relocate"]
HORIZONS = {"pen": 100, "hammer": 200, "door": 200, "relocate": 200}


def make(*arguments: Any, **options: Any) -> Any:
    """An environment whose MuJoCo attributes the type checker does not know."""
    return environments.make(*arguments, **options)


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


def test_a_single_capsule_has_the_inertia_of_a_cylinder_half_a_radius_longer():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><freejoint/>
        <geom type="capsule" size="0.1 0.3" density="1000"/></body></worldbody></mujoco>"""
    )
    older_mujoco.restore_capsule_inertia(model, mujoco.MjData(model))
    # ρ π r² (2h + r) = 1000 π 0.01 0.7; m (3·0.01 + 0.49)/12; m 0.01/2
    mass = 7 * np.pi
    assert model.body_mass[1] == pytest.approx(mass)
    np.testing.assert_allclose(model.body_inertia[1], [mass * 0.52 / 12, mass * 0.52 / 12, mass * 0.005])


def test_a_body_of_two_capsules_is_put_together_about_its_own_centre():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><freejoint/>
        <geom type="capsule" size="0.1 0.3" density="1000" pos="0 0 0"/>
        <geom type="capsule" size="0.1 0.3" density="1000" pos="2 0 0" euler="0 90 0"/>
        </body></worldbody></mujoco>"""
    )
    older_mujoco.restore_capsule_inertia(model, mujoco.MjData(model), total_mass=2.0)
    # Each weighs 1 and lies 1 from the common centre. Along x: across + along. Along y, z: + 2 · 1 · 1².
    across, along = 0.52 / 12, 0.005
    np.testing.assert_allclose(model.body_ipos[1], [1, 0, 0], atol=1e-12)
    expected = [2 + 2 * across, 2 + across + along, across + along]
    np.testing.assert_allclose(model.body_inertia[1], expected)
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, model.body_iquat[1])
    assert np.abs(rotation.reshape(3, 3)[0, 2]) == pytest.approx(1)  # the least moment is the one about x
    assert np.linalg.det(rotation.reshape(3, 3)) == pytest.approx(1)


def test_shapes_of_unknown_old_inertia_are_refused():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><freejoint/><geom type="box" size="1 1 1"/></body></worldbody></mujoco>"""
    )
    with pytest.raises(PloffError, match="capsules"):
        older_mujoco.restore_capsule_inertia(model, mujoco.MjData(model))


def test_the_cheetah_weighs_fourteen_and_the_others_what_their_old_capsules_do():
    masses = {name: make(name).unwrapped.model.body_mass.sum() for name in D4RL[:3]}
    assert masses["halfcheetah"] == pytest.approx(14.0)
    lengths = [(0.05, 0.4), (0.05, 0.45), (0.04, 0.5), (0.06, 0.39)]  # hopper's capsules: r, 2h
    assert masses["hopper"] == pytest.approx(sum(1000 * np.pi * r**2 * (h + r) for r, h in lengths))


def test_two_geoms_touch_from_the_larger_of_their_margins_on():
    def contacts(gap: float) -> int:
        model = mujoco.MjModel.from_xml_string(
            f"""<mujoco><worldbody><geom size="1" margin="0.1"/>
            <body pos="{2 + gap} 0 0"><freejoint/><geom size="1" margin="0.02"/></body></worldbody></mujoco>"""
        )
        older_mujoco.restore_contact_margins(model)
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        return data.ncon

    assert [contacts(gap) for gap in (0.05, 0.099, 0.101, 0.11)] == [1, 1, 0, 0]


def test_a_model_of_several_margins_is_refused_where_sums_cannot_stand_for_the_larger():
    spheres = "".join(f'<geom size="1" margin="{margin}"/>' for margin in (0.1, 0.02, 0.03))
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{spheres}</worldbody></mujoco>")
    if not older_mujoco.margins_add_up():
        pytest.skip("the installed MuJoCo takes the larger margin by itself")
    with pytest.raises(PloffError, match="several margins"):
        older_mujoco.restore_contact_margins(model)


def test_bounding_volumes_that_no_longer_fit_are_not_used():
    flags = make("hopper").unwrapped.model.opt.disableflags
    assert flags & mujoco.mjtDisableBit.mjDSBL_MIDPHASE


@pytest.mark.parametrize("name", D4RL[:3])
def test_reward_and_observation_are_gymnasiums_where_only_the_bodies_differ(name, monkeypatch):
    monkeypatch.setattr(locomotion, "restore_capsule_inertia", lambda *_: None)
    monkeypatch.setattr(locomotion, "restore_contact_margins", lambda *_: None)
    model = locomotion.TASKS[name].model_file
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


@pytest.mark.parametrize("name", D4RL)
def test_episodes_last_as_long_as_d4rls(name):
    env = make(name)
    limit = env.get_wrapper_attr("_max_episode_steps")
    assert limit == HORIZONS.get(name, 1000)


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


def test_d4rls_references_and_scores():
    assert environments.reference_scores("hopper") == (-20.272305, 3234.3)
    halfway = (-20.272305 + 3234.3) / 2
    scores = environments.normalised_score([-20.272305, halfway, 3234.3], (-20.272305, 3234.3))
    np.testing.assert_allclose(scores, [0, 50, 100])


def test_references_can_be_registered_and_must_make_sense(monkeypatch):
    monkeypatch.setattr("ploff.environments.scores._REFERENCES", {})
    environments.register_reference("mine", 0.0, 500.0)
    assert environments.reference_scores("mine") == (0.0, 500.0)
    for low, high in [(1.0, 1.0), (2.0, 1.0), (0.0, float("nan"))]:
        with pytest.raises(PloffError, match="low < high"):
            environments.register_reference("mine", low, high)


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


def test_nothing_is_printed_or_written_while_environments_are_made(tmp_path):
    program = "from ploff import environments as e; [e.make(n, p) for n in e.names() for p in ('d4rl', 'gymnasium')]"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "task", "observation_bound", "reward_bound"),
    [
        ("hopper_medium-v2", "hopper", 1e-5, 1e-5),
        ("halfcheetah_medium-v2", "halfcheetah", 1e-5, 1e-5),
        ("door-expert-v1", "door", 1e-5, 1e-3),
    ],
)
def test_one_step_from_logged_states_agrees_with_d4rl(
    file, task, observation_bound, reward_bound, monkeypatch
):
    path = SHARED / "real" / f"{file}.hdf5"
    if not path.exists():
        pytest.skip("needs real D4RL episodes")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import physics  # pyright: ignore[reportMissingImports]

    log = physics.read_log(path, task)
    observation, reward = physics.one_step_errors(log, task, "d4rl", limit=300)
    assert len(reward) > 200
    assert np.median(observation) <= observation_bound
    assert np.median(reward) <= reward_bound
    observation, reward = physics.one_step_errors(log, task, "gymnasium", limit=300)
    worse = np.median(observation) > observation_bound, np.median(reward) > reward_bound
    assert any(worse)  # the check can fail
