"""What an older MuJoCo computed: by hand-made numbers, and by steps that D4RL logged."""

import numpy as np
import pytest

from environment_cases import ROOT, SHARED, make
from ploff.environments import mujoco_compat
from ploff.utils.errors import PloffError

mujoco = pytest.importorskip("mujoco")


def test_a_single_capsule_has_the_inertia_of_a_cylinder_half_a_radius_longer():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><freejoint/>
        <geom type="capsule" size="0.1 0.3" density="1000"/></body></worldbody></mujoco>"""
    )
    mujoco_compat.restore_capsule_inertia(model, mujoco.MjData(model))
    # ρ π r² (2h + r) = 1000 π 0.01 0.7; m (3·0.01 + 0.49)/12; m 0.01/2
    mass = 7 * np.pi
    assert model.body_mass[1] == pytest.approx(mass)
    np.testing.assert_allclose(model.body_inertia[1], [mass * 0.52 / 12, mass * 0.52 / 12, mass * 0.005])


def test_a_body_of_two_capsules_is_put_together_about_its_own_center():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><freejoint/>
        <geom type="capsule" size="0.1 0.3" density="1000" pos="0 0 0"/>
        <geom type="capsule" size="0.1 0.3" density="1000" pos="2 0 0" euler="0 90 0"/>
        </body></worldbody></mujoco>"""
    )
    mujoco_compat.restore_capsule_inertia(model, mujoco.MjData(model), total_mass=2.0)
    # Each weighs 1 and lies 1 from the common center. Along x: across + along. Along y, z: + 2 · 1 · 1².
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
        mujoco_compat.restore_capsule_inertia(model, mujoco.MjData(model))


def test_two_geoms_touch_from_the_larger_of_their_margins_on():
    def contacts(gap: float) -> int:
        model = mujoco.MjModel.from_xml_string(
            f"""<mujoco><worldbody><geom size="1" margin="0.1"/>
            <body pos="{2 + gap} 0 0"><freejoint/><geom size="1" margin="0.02"/></body></worldbody></mujoco>"""
        )
        mujoco_compat.restore_contact_margins(model)
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        return data.ncon

    assert [contacts(gap) for gap in (0.05, 0.099, 0.101, 0.11)] == [1, 1, 0, 0]


def test_a_model_of_several_margins_is_refused_where_sums_cannot_stand_for_the_larger():
    spheres = "".join(f'<geom size="1" margin="{margin}"/>' for margin in (0.1, 0.02, 0.03))
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{spheres}</worldbody></mujoco>")
    if not mujoco_compat.margins_add_up():
        pytest.skip("the installed MuJoCo takes the larger margin by itself")
    with pytest.raises(PloffError, match="several margins"):
        mujoco_compat.restore_contact_margins(model)


def test_bounding_volumes_that_no_longer_fit_are_not_used():
    flags = make("hopper").unwrapped.model.opt.disableflags
    assert flags & mujoco.mjtDisableBit.mjDSBL_MIDPHASE


@pytest.mark.parametrize(
    ("file", "task", "observation_bound", "reward_bound"),
    [
        ("hopper_medium-v2", "hopper", 1e-5, 1e-5),
        ("halfcheetah_medium-v2", "halfcheetah", 1e-5, 1e-5),
        ("door-expert-v1", "door", 1e-5, 1e-3),
    ],
)
def test_one_step_from_logged_states_agrees_with_d4rl(file, task, observation_bound, reward_bound, monkeypatch):
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
