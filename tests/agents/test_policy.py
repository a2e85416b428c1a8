"""A policy's file holds the module that acts, and no more."""

import jax
import numpy as np
import pytest

from agent_cases import dataset_for, tiny, toy_log
from ploff import PloffError, agents
from ploff.agents.dataset import OfflineDataset
from ploff.agents.policy import Policy, read_policy, save_policy


@pytest.mark.parametrize("name", sorted(agents.METHODS))
def test_a_policy_acts_as_its_method_does_and_is_read_back(name, tmp_path):
    """What the file leaves out is not missed."""
    method, config = agents.get_method(name), tiny(name)
    plain = dataset_for(name)
    data = plain.data.with_normalized_observations()
    dataset = OfflineDataset.of(data, plain.distances)
    state = method.init(jax.random.key(1), dataset, config)
    policy = Policy.of(method, state, dataset.data)
    save_policy(tmp_path / "policy.eqx", policy, name, config, step=7)
    raw = np.asarray(toy_log().observations)[:6]
    wanted = method.policy(state)(dataset.data.states(np.arange(6)))
    np.testing.assert_allclose(read_policy(tmp_path / "policy.eqx")(raw), wanted, rtol=1e-5, atol=1e-6)
    assert len(jax.tree.leaves(policy.actor)) < len(jax.tree.leaves(state))


def test_observations_of_another_shape_are_refused(tmp_path):
    dataset = dataset_for("bc")
    method = agents.get_method("bc")
    policy = Policy.of(method, method.init(jax.random.key(0), dataset, tiny("bc")), dataset.data)
    with pytest.raises(PloffError, match=r"takes observations of shape \(2,\), got \(9,\)"):
        policy(np.zeros((2, 9)))


def test_a_policy_of_another_version_is_refused_in_one_line(tmp_path):
    (tmp_path / "policy.eqx").write_bytes(b'{"format": "ploff policy 2"}\n')
    with pytest.raises(PloffError, match="is not a policy that this version reads; train it again"):
        read_policy(tmp_path / "policy.eqx")
