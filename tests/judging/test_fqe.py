import jax.numpy as jnp
import numpy as np
import pytest

from judging_cases import FAST, always, judged_log
from ploff.judging.features import fqe_data, plain_pairs
from ploff.judging.fqe import FQEData, fit_values, resampled_rows, returns_of


def values(log, policy):
    return fit_values(fqe_data(log, log.actions_of(policy), plain_pairs), FAST)


def test_it_finds_the_values_of_a_process_that_is_known():
    log = judged_log()
    # Always up: nothing now, 1 at each later step; as a mean per step (1 − γ) γ / (1 − γ) = γ. All steps are lived.
    up, down = values(log, always(1.0)), values(log, always(-1.0))
    np.testing.assert_allclose(up[..., 0], 0.9, atol=0.06)
    np.testing.assert_allclose(down[..., 0], 0.0, atol=0.06)
    np.testing.assert_allclose(up[..., 1], 1.0, atol=1e-3)


def test_an_end_is_worth_nothing_and_is_counted_as_one():
    count = 400
    data = FQEData(
        inputs=jnp.ones((count, 1)),
        next_inputs=jnp.ones((count, 1)),
        costs=jnp.ones((count, 2)),
        continues=jnp.asarray(np.arange(count) % 5 != 0, jnp.float32),
        starts=jnp.ones((1, 1)),
        owners=np.arange(count) // 10,
    )
    found = fit_values(data, FAST)
    # One step in five ends: (1 − γ) / (1 − γ · 0.8) of the discounted steps are lived, each pays 1.
    np.testing.assert_allclose(found, 0.1 / 0.28, atol=0.04)
    assert returns_of(found, 0.9, 1000).mean() == pytest.approx(5.0, abs=0.8)


def test_returns_are_those_of_a_constant_rate_of_ends():
    share = (1 - 0.9) / (1 - 0.9 * 0.75)
    found = returns_of(np.array([[[2.0 * share, share]]]), 0.9, 3)
    assert found == pytest.approx(2.0 * (1 + 0.75 + 0.75**2))
    assert returns_of(np.array([[[2.0, 1.0]]]), 0.9, 7) == pytest.approx(14.0)


def test_networks_disagree_about_actions_that_nobody_tried():
    """The known weakness: there each network goes on in its own way, and none of them knows."""
    rng, count = np.random.default_rng(0), 400
    actions = rng.uniform(-1, 0, (count, 1)).astype(np.float32)
    data = FQEData(
        inputs=jnp.asarray(actions),
        next_inputs=jnp.ones((count, 1)),
        costs=jnp.asarray(np.concatenate([actions, np.ones((count, 1))], axis=1), jnp.float32),
        continues=jnp.zeros(count),  # an end after every step
        starts=jnp.asarray([[-0.5], [2.0]]),
        owners=np.arange(count),
    )
    found = fit_values(data, FAST)[..., 0] / (1 - FAST.discount)
    np.testing.assert_allclose(found[:, 0], -0.5, atol=0.2)
    assert np.ptp(found[:, 1]) > 3 * np.ptp(found[:, 0])


def test_targets_never_exceed_what_rewards_allow():
    log = judged_log(share=1.0)
    found = values(log, always(-1.0))
    assert found.min() >= 0.0
    assert found.max() <= 1.0


def test_each_network_sees_whole_episodes_of_its_own():
    owners = np.repeat(np.arange(6), 4)
    rows = resampled_rows(owners, 3, seed=0)
    assert rows.shape == (3, 24)
    seen = [set(owners[own].tolist()) for own in rows]
    assert len(set(map(frozenset, seen))) > 1
    assert all(len(each) < 6 for each in seen)
