"""A policy's file holds the module that acts, and no more."""

import jax
import numpy as np
import pytest

from agent_cases import dataset_for, tiny, toy_log
from ploff import PloffError, agents
from ploff.agents.batches import SIZES, is_traced
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
    with pytest.raises(PloffError, match="is of another version of ploff"):
        read_policy(tmp_path / "policy.eqx")


@pytest.fixture(scope="module")
def policy():
    dataset, method = dataset_for("bc"), agents.get_method("bc")
    return Policy.of(method, method.init(jax.random.key(0), dataset, tiny("bc")), dataset.data)


def test_batches_of_all_sizes_compile_few_functions(policy, monkeypatch):
    traced, call = set(), Policy.__call__
    monkeypatch.setattr(
        Policy, "__call__", lambda self, rows: (is_traced(rows) and traced.add(len(rows))) or call(self, rows)
    )
    rows = np.random.default_rng(0).standard_normal((5000, 2)).astype(np.float32)
    whole = np.asarray(policy(rows))
    for count in range(1, 33):
        np.testing.assert_allclose(policy(rows[:count]), whole[:count], rtol=1e-5, atol=1e-6)
    assert {64, 4096} <= traced <= set(SIZES)
    assert policy(rows[:0]).shape == (0, 2)


def test_a_policy_is_a_function_to_every_transformation(policy):
    rows = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)
    wanted = np.asarray(policy(rows))
    np.testing.assert_allclose(jax.jit(policy)(rows), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(lambda row: policy(row[None])[0])(rows), wanted, rtol=1e-5, atol=1e-6)
    assert jax.jacobian(policy)(rows).shape == (5, 2, 5, 2)
    np.testing.assert_array_equal(policy(rows.tolist()), wanted)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.0, 1.0], [2.0, float("nan")]], "row 1, column 1 of the observations is nan"),
        ([[0.0, 1.0], [-float("inf"), 0.0]], "row 1, column 0 of the observations is -inf"),
        (np.array([[0.0, 1e300]]), "row 0, column 1 of the observations is inf"),
        ([[0.0, None]], "row 0, column 1 of the observations is None; a real number"),
        (np.ma.masked_array([[0.0, 1.0]], [[True, False]]), "row 0, column 0 of the observations is masked"),
        (np.zeros((1, 2), complex), "row 0, column 0 of the observations is .*0j.*; a real number"),
        ([[0.0, 1.0], [2.0]], "rows of one length"),
        ([["a", "b"]], "row 0, column 0 of the observations is .*'a'"),
        ([0.0, 1.0, 2.0], r"observations of shape \(2,\), got \(\); there is one per row"),
    ],
    ids=str,
)
def test_what_is_no_number_is_refused_by_its_place(policy, rows, message):
    with pytest.raises(PloffError, match=message):
        policy(rows)
