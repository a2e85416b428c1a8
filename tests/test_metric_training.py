import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metric_cases import SMALL, discrete_log, random_log
from ploff import ActionSpace, PloffError, Transitions, quality, storage
from ploff.metric_training import CHECKPOINT, MetricTraining, has_settled, learn_metric, load_metric
from ploff.neighbors import Euclidean
from ploff.training import DivergenceError, Loop

QUICK = MetricTraining(steps=40, chunk=10, check_every=20, settle=False, held_out=0.2)


class Loss(NamedTuple):
    loss: jax.Array


def leaves(learned):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(learned.metric)]


def assert_same(first, second):
    for a, b in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.metric.action_scale == second.metric.action_scale


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole")
    return learn_metric(random_log(), SMALL, QUICK, out=out, quiet=True), out


def test_the_same_seed_gives_the_same_metric_and_another_does_not(whole):
    learned, _ = whole
    assert_same(learned, learn_metric(random_log(), SMALL, QUICK, quiet=True))
    other = learn_metric(random_log(), SMALL, dataclasses.replace(QUICK, seed=1), quiet=True)
    assert not np.array_equal(leaves(learned)[0], leaves(other)[0])


def test_a_metric_is_read_back_without_its_dataset(whole):
    learned, out = whole
    again = load_metric(out)
    assert_same(learned, again)
    assert again.fingerprint == learned.fingerprint
    assert again.bound == learned.bound
    assert [row["step"] for row in again.history] == [10, 20, 30, 40]
    assert (out / "metric" / "history.csv").read_text().startswith("step,loss_phi,")


def test_a_run_that_was_stopped_and_resumed_ends_the_same(whole, tmp_path):
    learned, _ = whole
    learn_metric(random_log(), SMALL, dataclasses.replace(QUICK, steps=20), out=tmp_path, quiet=True)
    resumed = learn_metric(random_log(), SMALL, QUICK, out=tmp_path, quiet=True)
    assert_same(learned, resumed)
    assert resumed.history == learned.history
    assert resumed.checks == learned.checks


KILLED = """
import pathlib, sys
sys.path.insert(0, {tests!r})
from metric_cases import SMALL, random_log
from ploff import training
from ploff.metric_training import MetricTraining, learn_metric
training.SECONDS_BETWEEN_CHECKPOINTS = 0.0
length = MetricTraining(steps={steps}, chunk=10, check_every={steps}, settle=False, held_out=0.2)
learn_metric(random_log(), SMALL, length, out={out!r}, quiet=True)
"""


def test_a_run_killed_at_any_moment_and_resumed_ends_the_same(tmp_path):
    steps = 3000
    training = MetricTraining(steps=steps, chunk=10, check_every=steps, settle=False, held_out=0.2)
    script = KILLED.format(tests=str(pathlib.Path(__file__).parent), steps=steps, out=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script])
    checkpoint = tmp_path / CHECKPOINT
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    time.sleep(
        np.random.default_rng().uniform(0, 0.5)
    )  # any moment: a failure here is a bug whenever it comes
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    reached = storage.load_header(checkpoint)["step"]
    assert 0 < reached < steps, "the run ended before it could be killed"
    resumed = learn_metric(random_log(), SMALL, training, out=tmp_path, quiet=True)
    assert_same(resumed, learn_metric(random_log(), SMALL, training, quiet=True))


def test_another_dataset_or_setting_is_refused_by_name(whole):
    _, out = whole
    with pytest.raises(PloffError, match="another dataset"):
        learn_metric(random_log(seed=9), SMALL, QUICK, out=out, quiet=True)
    with pytest.raises(PloffError, match=r"discount=0\.9, not 0\.5"):
        learn_metric(random_log(), dataclasses.replace(SMALL, discount=0.5), QUICK, out=out, quiet=True)
    with pytest.raises(PloffError, match="no learned metric"):
        load_metric(out / "nowhere")


def test_a_damaged_checkpoint_is_refused(whole, tmp_path):
    _, out = whole
    copy = tmp_path / CHECKPOINT
    copy.parent.mkdir()
    content = (out / CHECKPOINT).read_bytes()
    copy.write_bytes(content[: len(content) // 2])
    with pytest.raises(PloffError, match="does not hold what was expected"):
        load_metric(tmp_path)


def test_divergence_stops_the_run_and_the_last_good_checkpoint_stays(tmp_path):
    wild = dataclasses.replace(SMALL, learning_rate=1e4, bounded=False)
    with pytest.raises(DivergenceError, match=r"metric diverged before step .*try"):
        learn_metric(random_log(), wild, dataclasses.replace(QUICK, steps=2000), out=tmp_path, quiet=True)


def test_a_value_that_is_not_finite_names_itself_and_keeps_the_checkpoint(tmp_path):
    def update(state, key):
        return state + 1, Loss(loss=jnp.where(state < 25, 1.0, jnp.nan))

    checkpoint = tmp_path / "checkpoint.eqx"
    loop = Loop("toy", update, jnp.asarray(0), (), seed=0, chunk=10, checkpoint=checkpoint)
    loop.run(20, quiet=True)
    again = Loop("toy", update, jnp.asarray(0), (), seed=0, chunk=10, checkpoint=checkpoint)
    with pytest.raises(DivergenceError, match=r"toy diverged before step 30: loss not finite.*step 20 stays"):
        again.run(50, quiet=True)
    assert storage.load_header(checkpoint)["step"] == 20


@pytest.mark.parametrize(("chunk", "every"), [(10, 50), (7, 50), (25, 50)])
def test_checks_are_at_the_same_steps_wherever_an_earlier_run_ended(tmp_path, chunk, every):
    def update(state, key):
        return state + 1, Loss(loss=state * 1.0)

    def loop():
        return Loop("toy", update, jnp.asarray(0), (), seed=0, chunk=chunk, checkpoint=tmp_path / "c.eqx")

    def check(loop):
        return {"state": float(loop.state)}

    for steps in (125, 300):
        last = loop()
        last.run(steps, check=check, check_every=every, check_end=True, quiet=True)
    assert [row["step"] for row in last.checks] == [50, 100, 125, 150, 200, 250, 300]
    assert all(row["state"] == row["step"] for row in last.checks)


def test_training_stops_when_the_checks_have_settled():
    training = MetricTraining(patience=2, agreement=0.9, tolerance=0.01)
    steady = {"agreement": 0.95, "support_auc": 0.9}
    assert has_settled([steady] * 3, training)
    assert not has_settled([steady] * 2, training)
    assert not has_settled([steady, {**steady, "agreement": 0.5}, steady], training)
    assert not has_settled([steady, steady, {**steady, "support_auc": 0.95}], training)


def test_discrete_actions_and_images_are_learned_from():
    images = dataclasses.replace(
        random_log(episodes=4),
        observations=np.random.default_rng(0).integers(0, 255, (104, 16, 16, 3), np.uint8),
    )
    for data in (discrete_log(), images):
        learned = learn_metric(data, SMALL, dataclasses.replace(QUICK, steps=20), quiet=True)
        assert np.isfinite(learned.history[-1]["loss_phi"])


def test_an_interrupted_run_says_how_to_go_on(tmp_path):
    def interrupt(loop):
        raise KeyboardInterrupt

    loop = Loop(
        "toy", lambda state, key: (state + 1, Loss(loss=state)), jnp.asarray(0), (), seed=0, chunk=10,
        checkpoint=tmp_path / "checkpoint.eqx",
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt, match="interrupted at step 10; run the same command again"):
        loop.run(100, check=interrupt, check_every=10, quiet=True)
    assert storage.load_header(tmp_path / "checkpoint.eqx")["step"] == 10


# The measures of quality.


def test_the_roc_area_in_numbers():
    assert quality.roc_area(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1.0
    assert quality.roc_area(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 0.0
    assert quality.roc_area(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0.5
    assert quality.roc_area(np.array([1.0, 3.0]), np.array([2.0])) == 0.5


def test_no_episode_is_both_learned_from_and_held_out():
    data = random_log()
    split = quality.Split.by_episode(data, 0.25, seed=0)
    ends = data.episode_ends()
    learned, held = (set(np.searchsorted(ends, rows)) for rows in (split.train, split.held_out))
    assert not learned & held
    assert len(held) == 3
    assert len(split.train) + len(split.held_out) == len(data)


def test_episodes_without_a_known_successor_are_neither_learned_from_nor_held_out():
    data = random_log()
    count = len(data)
    ends = np.arange(count) % 10 < 6  # five of six episodes are one row long
    short = Transitions.from_rows(
        observations=np.asarray(data.observations)[:count],
        actions=np.asarray(data.actions),
        rewards=np.asarray(data.rewards),
        terminals=ends,
        timeouts=np.zeros(count, bool),
        action_space=data.action_space,
    )
    for seed in range(20):
        split = quality.Split.by_episode(short, 0.05, seed)
        assert len(split.train)
        assert len(split.held_out)


def test_the_distance_to_the_data_tells_logged_from_random_actions_where_it_should():
    """Logged actions follow the state, so the support is thin: L2 must see it. Where they are random, nothing can."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (2000, 2)).astype(np.float32)
    rows = {
        "observations": states,
        "next_observations": states,
        "rewards": rng.uniform(size=2000).astype(np.float32),
        "terminals": np.zeros(2000, bool),
        "timeouts": np.arange(2000) % 50 == 49,
        "action_space": ActionSpace.box([-1, -1], [1, 1]),
    }
    thin = Transitions.from_rows(actions=states, **rows)
    wide = Transitions.from_rows(actions=rng.uniform(-1, 1, (2000, 2)).astype(np.float32), **rows)
    areas = []
    for data in (thin, wide):
        split = quality.Split.by_episode(data, 0.2, seed=0)
        areas.append(quality.support(Euclidean(), data, split, jax.random.key(0), queries=300, k=20)[0])
    assert areas[0] > 0.9
    assert areas[1] == pytest.approx(0.5, abs=0.05)


def test_the_residual_is_zero_at_a_fixed_point_and_not_elsewhere(whole):
    """All rewards equal and a metric that is zero everywhere: d = F d exactly."""
    learned, _ = whole
    data = learned.in_units_of(random_log())
    flat = dataclasses.replace(data, rewards=np.zeros(len(data), np.float32))
    zero = jax.tree.map(jnp.zeros_like, learned.metric)
    config = dataclasses.replace(SMALL, state_weight=0.0)
    rows = data.rows_with_successor()
    assert quality.residual(zero, flat, rows, jax.random.key(0), config) == 0
    assert quality.residual(zero, data, rows, jax.random.key(0), config) > 0.5
    assert quality.residual(learned.metric, data, rows, jax.random.key(0), SMALL) > 0.01


def test_agreement_counts_shared_neighbours():
    before = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    after = np.array([[4, 3, 9, 10], [5, 6, 7, 8]])
    assert quality.agreement(before, after) == pytest.approx(0.75)
