import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from metric_cases import QUICK, SMALL, discrete_log, random_log
from ploff import PloffError
from ploff.metric.train import CHECKPOINT, MetricTraining, has_settled, learn_metric, load_metric
from ploff.training.checkpoint import load_header
from ploff.training.loop import DivergenceError


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
    columns = (out / "history.csv").read_text().splitlines()[0]
    assert columns == "step,max_distance,mean_distance,phi_loss,psi_loss"


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
from ploff.metric.train import MetricTraining, learn_metric
from ploff.training import loop
loop.SECONDS_BETWEEN_CHECKPOINTS = 0.0
length = MetricTraining(
    steps={steps}, scan_length=10, check_every={steps}, early_stopping=False, validation_fraction=0.2
)
learn_metric(random_log(), SMALL, length, out={out!r}, quiet=True)
"""


def test_a_run_killed_at_any_moment_and_resumed_ends_the_same(tmp_path):
    steps = 3000
    training = MetricTraining(
        steps=steps, scan_length=10, check_every=steps, early_stopping=False, validation_fraction=0.2
    )
    script = KILLED.format(tests=str(pathlib.Path(__file__).parents[1]), steps=steps, out=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script])
    checkpoint = tmp_path / CHECKPOINT
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    time.sleep(np.random.default_rng().uniform(0, 0.5))  # any moment: a failure here is a bug whenever it comes
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    reached = load_header(checkpoint)["step"]
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
    content = (out / CHECKPOINT).read_bytes()
    copy.write_bytes(content[: len(content) // 2])
    with pytest.raises(PloffError, match=r"damaged: .*remove it"):
        load_metric(tmp_path)


def test_divergence_stops_the_run_and_the_last_good_checkpoint_stays(tmp_path):
    wild = dataclasses.replace(SMALL, lr=1e4, bounded=False)
    with pytest.raises(DivergenceError, match=r"metric diverged before step .*try"):
        learn_metric(random_log(), wild, dataclasses.replace(QUICK, steps=2000), out=tmp_path, quiet=True)


def test_training_stops_when_the_checks_have_settled():
    training = MetricTraining(patience=2, min_neighbor_overlap=0.9, tolerance=0.01)
    steady = {"neighbor_overlap": 0.95, "support_auc": 0.9}
    assert has_settled([steady] * 3, training)
    assert not has_settled([steady] * 2, training)
    assert not has_settled([steady, {**steady, "neighbor_overlap": 0.5}, steady], training)
    assert not has_settled([steady, steady, {**steady, "support_auc": 0.95}], training)


def test_discrete_actions_and_images_are_learned_from():
    images = dataclasses.replace(
        random_log(episodes=4),
        observations=np.random.default_rng(0).integers(0, 255, (104, 16, 16, 3), np.uint8),
    )
    for data in (discrete_log(), images):
        learned = learn_metric(data, SMALL, dataclasses.replace(QUICK, steps=20), quiet=True)
        assert np.isfinite(learned.history[-1]["phi_loss"])
