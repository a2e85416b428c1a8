"""One seed of one method: what is said while it runs, and what its policy's file holds."""

import json
import shutil

import jax
import numpy as np
import pytest

import ploff
from experiment_cases import BRIEF, TINY, swings
from metric_cases import random_log
from ploff import PloffError, agents
from ploff.environments.evaluation import evaluate
from ploff.experiments import agent_run
from ploff.training.checkpoint import refuse_difference, seal
from ploff.training.loop import TrainingRun
from ploff.utils.errors import PloffWarning


class Dropped:
    def write(self, step, values): ...


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return ploff.train(swings(), "td3-bc", out=tmp_path_factory.mktemp("whole"), settings=TINY, **BRIEF)


def test_evaluations_at_other_steps_or_of_other_seeds_have_other_episodes():
    seeds = {agent_run.evaluation_seed(seed, step) for seed in range(20) for step in range(0, 200, 10)}
    assert len(seeds) == 400


def test_a_policy_is_a_small_file_that_needs_nothing_else_and_acts_as_it_was_evaluated(whole, tmp_path):
    copy = tmp_path / "elsewhere.eqx"
    shutil.copy(whole.folder / "seed-0" / "policy.eqx", copy)
    assert copy.stat().st_size < (whole.folder / "seed-0" / "checkpoint.eqx").stat().st_size / 3
    policy = ploff.load_policy(copy)
    states = np.asarray(swings().observations)[:5]
    np.testing.assert_array_equal(policy(states), whole.policy()(states))
    last = json.loads((whole.folder / "seed-0" / "evaluation.json").read_text())
    again = evaluate(policy, "Pendulum-v1", episodes=2, seed=last["seed"])
    np.testing.assert_array_equal(again.returns, last["returns"])


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        ({"max_q": 11.0}, {"max_q": 12.0}, "a value of 11, where 10 is the most there can be"),
        ({"mean_q": -10.5}, {"mean_q": -11.0}, "worth -10.5 on average, where -10 is the least there can be"),
    ],
)
def test_a_value_that_cannot_be_is_said_once_and_training_goes_on(first, later, said, tmp_path):
    config = agents.get_method("td3-off").config(discount=0.9)
    job = agent_run.AgentJob(
        folder=tmp_path, method="td3-off", settings={}, training={}, seed=0, data=random_log(), dataset=""
    )
    dataset = agent_run.build_dataset(job, "unit")
    run = TrainingRun("toy", jax.numpy.zeros(()))
    watcher = agent_run._Watcher(job, config, dataset, run, Dropped())
    row = {"step": 10, "max_q": 9.0, "mean_q": -9.0}
    watcher.complete(row)
    assert row == {"step": 10, "max_q": 9.0, "mean_q": -9.0, "q_bound": pytest.approx(10.0)}
    with pytest.warns(PloffWarning, match=f"td3-off seed 0, before step 20: .*{said}"):
        watcher.complete({**row, "step": 20, **first})
    watcher.complete({**row, "step": 30, **later})  # a second warning would be an error here


def test_a_difference_is_found_on_both_sides(tmp_path):
    was = {"dataset": "a", "eval_env": {"environment": "hopper"}, "config": {"hidden_sizes": [2, 3]}}
    refuse_difference(tmp_path, was, {**was, "config": {"hidden_sizes": (2, 3)}})
    for wanted, message in (
        ({**was, "dataset": "b"}, "another dataset"),
        ({**was, "eval_env": None}, "environment=hopper, not None"),
        ({**was, "config": {"hidden_sizes": (2,)}}, r"hidden_sizes=\(2, 3\), not \(2,\)"),
    ):
        with pytest.raises(PloffError, match=message):
            refuse_difference(tmp_path, was, wanted)


def test_a_checkpoint_of_another_metric_is_refused(tmp_path):
    run = ploff.train(random_log(), "ploff-l2", out=tmp_path, settings=TINY, **BRIEF | {"steps": 10})
    path = run.folder / "seed-0" / "checkpoint.eqx"
    _, header, arrays = path.read_bytes().split(b"\n", 2)
    content = json.loads(header)
    content["identity"]["metric"] = "another"
    line = json.dumps(content).encode() + b"\n"
    path.write_bytes(seal(line, arrays) + line + arrays)
    with pytest.raises(PloffError, match="was trained with metric=another, not l2"):
        ploff.train(random_log(), "ploff-l2", out=tmp_path, settings=TINY, **BRIEF | {"steps": 20})


def test_tensorboard_gets_what_the_csv_files_get(tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto import event_pb2

    run = ploff.train(swings(), "bc", out=tmp_path, settings=TINY, logger="tensorboard", **BRIEF | {"steps": 20})
    (file,) = (run.folder / "seed-0" / "tensorboard").iterdir()
    content, place, found = file.read_bytes(), 0, {}
    while place < len(content):  # length, checksum, event, checksum
        size = int.from_bytes(content[place : place + 8], "little")
        event = event_pb2.Event.FromString(content[place + 12 : place + 12 + size])
        for value in event.summary.value:
            found[value.tag, event.step] = value.simple_value
        place += 16 + size
    for row in run.seeds[0].history:
        assert found["actor_loss", int(row["step"])] == pytest.approx(row["actor_loss"])
    for row in run.seeds[0].evaluations:
        assert found["mean_return", int(row["step"])] == pytest.approx(row["mean_return"])
