"""From a log to evaluated policies: stages reused, runs resumed, seeds side by side, errors in one line."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import typing

import gymnasium as gym
import jax
import numpy as np
import pytest

import ploff
from metric_cases import SMALL as SMALL_METRIC
from metric_cases import discrete_log, random_log
from ploff import PloffError, agents, cli, datasets, storage
from ploff.actions import ActionSpace
from ploff.collection import collect
from ploff.commands.train import Train
from ploff.environments import registry
from ploff.errors import PloffWarning, UnknownNameError
from ploff.evaluation import evaluate
from ploff.metric_training import MetricTraining, learn_metric, load_metric
from ploff.pipeline import agent, arena, pool, runs, settings, stages
from ploff.training import Loop, refuse_difference

TINY = {"hidden": "8,8", "batch": "16"}
TINY_METRIC = {
    "metric.hidden": 32,
    "metric.embedding": 8,
    "metric.rows": 16,
    "metric.actions": 3,
}  # SMALL_METRIC
BRIEF = {"steps": 40, "evaluate_every": 10, "episodes": 2, "quiet": True}
FILES = {"checkpoint.eqx", "history.csv", "evaluations.csv", "evaluation.json", "policy.eqx", ".lock"}


@pytest.fixture(scope="module")
def swings():
    """A log with an environment that any process can make."""
    return collect("Pendulum-v1", transitions=400, seed=3)


@pytest.fixture(scope="module")
def whole(swings, tmp_path_factory):
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole")
    return ploff.train(swings, "td3-bc", out=out, settings=TINY, **BRIEF)


def arrays_of(folder, seed=0):
    """Every array of a seed's checkpoint, as bytes behind its header."""
    return (folder / f"seed-{seed}" / "checkpoint.eqx").read_bytes().partition(b"\n")[2]


def assert_same_end(first, second, seed=0):
    assert arrays_of(first, seed) == arrays_of(second, seed)
    for name in ("history.csv", "evaluations.csv"):
        assert (first / f"seed-{seed}" / name).read_text() == (second / f"seed-{seed}" / name).read_text()


# The run folder.


def test_a_run_folder_holds_all_that_is_needed(whole, swings):
    assert {path.name for path in (whole.folder / "seed-0").iterdir()} == FILES
    config = json.loads((whole.folder / "config.json").read_text())
    assert (config["method"], config["environment"], config["physics"]) == ("td3-bc", "Pendulum-v1", "d4rl")
    assert config["settings"]["hidden"] == [8, 8]
    assert {"ploff", "jax", "gymnasium", "python"} <= set(config["versions"])
    assert config["data"]["mean_return"] == pytest.approx(swings.episode_returns().mean())
    last = json.loads((whole.folder / "seed-0" / "evaluation.json").read_text())
    assert last["step"] == 40
    header = (whole.folder / "seed-0" / "history.csv").read_text().splitlines()[0]
    assert header == "step,critic_loss,actor_loss,mean_q,largest_q,q_bound"


def test_evaluations_are_where_they_belong_and_the_score_is_the_mean_of_the_last_three(whole):
    (result,) = whole.seeds
    assert [row["step"] for row in result.evaluations] == [10, 20, 30, 40]
    for row in result.evaluations:
        assert row["mean_return"] == pytest.approx((row["return_0"] + row["return_1"]) / 2)
    expected = np.mean([row["mean_return"] for row in result.evaluations[1:]])
    assert result.mean_return == pytest.approx(expected)
    assert result.score is None  # Pendulum has no references
    assert runs.load_run(whole.folder).returns == whole.returns
    assert (whole.folder / "scores.csv").read_text().startswith("seed,step,mean_return\n0,40,")


def test_evaluations_at_other_steps_or_of_other_seeds_have_other_episodes():
    seeds = {agent.evaluation_seed(seed, step) for seed in range(20) for step in range(0, 200, 10)}
    assert len(seeds) == 400


def test_the_last_step_is_evaluated_wherever_it_falls(swings, tmp_path):
    run = ploff.train(swings, "bc", out=tmp_path, settings=TINY, **BRIEF | {"steps": 25})
    assert [row["step"] for row in run.seeds[0].evaluations] == [10, 20, 25]


def test_the_summary_has_mean_deviation_and_interval():
    assert runs.student_interval([1.0]) is None
    low, high = runs.student_interval([1.0, 2.0, 3.0]) or (0, 0)
    assert (low, high) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)  # t₂ = 4.3027, 1/√3


# Resuming.


def test_a_run_that_is_done_is_left_as_it_is(whole, swings):
    before = (whole.folder / "seed-0" / "policy.eqx").read_bytes()
    again = ploff.train(swings, "td3-bc", out=whole.folder, settings=TINY, **BRIEF)
    assert again.seeds == whole.seeds
    assert (whole.folder / "seed-0" / "policy.eqx").read_bytes() == before


def test_a_run_that_is_made_longer_ends_like_one_that_was_long(whole, swings, tmp_path):
    ploff.train(swings, "td3-bc", out=tmp_path, settings=TINY, **BRIEF | {"steps": 20})
    ploff.train(swings, "td3-bc", out=tmp_path, settings=TINY, **BRIEF)
    assert_same_end(whole.folder, tmp_path)


KILLED = """
import sys
import ploff
from ploff import training
training.SECONDS_BETWEEN_CHECKPOINTS = 0.0
ploff.train({log!r}, "td3-bc", out={out!r}, settings={settings!r}, **{options!r})
"""


def test_a_run_killed_at_any_moment_and_resumed_ends_the_same(swings, tmp_path):
    log = str(datasets.save(swings, tmp_path / "log.npz"))
    options = BRIEF | {"steps": 1200, "evaluate_every": 40, "episodes": 1, "environment": "Pendulum-v1"}
    out = tmp_path / "killed"
    script = KILLED.format(log=log, out=str(out), settings=TINY, options=options)
    process = subprocess.Popen([sys.executable, "-c", script])
    checkpoint = out / "seed-0" / "checkpoint.eqx"
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    time.sleep(
        np.random.default_rng().uniform(0, 0.4)
    )  # any moment: a failure here is a bug whenever it comes
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    reached = storage.load_header(checkpoint)["step"]
    assert 0 < reached < 1200, "the run ended before it could be killed"
    ploff.train(log, "td3-bc", out=out, settings=TINY, **options)
    ploff.train(log, "td3-bc", out=tmp_path / "whole", settings=TINY, **options)
    assert_same_end(tmp_path / "whole", out)
    steps = [row["step"] for row in runs.load_run(out).seeds[0].evaluations]
    assert steps == list(range(40, 1201, 40))


def test_an_evaluation_that_was_interrupted_is_made_up_for(whole, swings, tmp_path, monkeypatch):
    class Once:
        calls = 0

        def __call__(self, *arguments, **options):
            Once.calls += 1
            if Once.calls == 2:
                raise KeyboardInterrupt
            return evaluate(*arguments, **options)

    monkeypatch.setattr(agent, "evaluate", Once())
    with pytest.raises(
        KeyboardInterrupt, match="td3-bc seed 0: interrupted at step 20; run the same command"
    ):
        ploff.train(swings, "td3-bc", out=tmp_path, settings=TINY, **BRIEF)
    ploff.train(swings, "td3-bc", out=tmp_path, settings=TINY, **BRIEF)
    assert_same_end(whole.folder, tmp_path)


def test_an_interrupt_between_the_loops_says_how_to_go_on_too(swings, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages.neighbors, "find_neighbours", interrupted)
    with pytest.raises(KeyboardInterrupt, match="interrupted; run the same command again to go on"):
        ploff.train(swings, "ploff-l2", out=tmp_path, settings=TINY, **BRIEF)


def test_other_data_settings_or_lengths_are_refused_by_name(whole, swings):
    def again(data=swings, method="td3-bc", given=TINY, **changes):
        ploff.train(data, method, out=whole.folder, settings=given, **BRIEF | changes)

    with pytest.raises(PloffError, match="another dataset"):
        again(collect("Pendulum-v1", transitions=400, seed=4))
    with pytest.raises(PloffError, match="method=td3-bc, not bc"):
        again(method="bc")
    with pytest.raises(PloffError, match=r"discount=0\.99, not 0\.5"):
        again(given={**TINY, "discount": 0.5})
    with pytest.raises(PloffError, match="evaluate_every=10, not 20"):
        again(evaluate_every=20)
    with pytest.raises(PloffError, match="trained for 40 steps, more than 20"):
        again(steps=20)
    with (
        storage.exclusive(whole.folder / "seed-0" / ".lock", waiting=lambda: None),
        pytest.raises(PloffError, match="another process is training"),
    ):
        again(steps=50)


# The metric and the neighbours.


@pytest.fixture(scope="module")
def near(tmp_path_factory):
    """PLOff on a log without an environment."""
    out = tmp_path_factory.mktemp("near")
    given = {**TINY, **TINY_METRIC}
    return ploff.train(random_log(), "ploff", out=out, settings=given, metric_steps=20, **BRIEF)


def test_without_an_environment_a_policy_is_trained_and_watched(near, capfd):
    (result,) = near.seeds
    assert result.step == 40
    assert result.evaluations == []
    assert {"mean_q", "largest_q", "q_bound", "distance"} <= set(result.history[-1])
    assert result.history[-1]["distance"] > 0
    ploff.train(random_log(), "bc", out=near.folder / "bc", settings=TINY, **BRIEF | {"quiet": False})
    assert capfd.readouterr().err.count("no environment is known") == 1


def test_a_metric_is_shared_by_methods_and_runs_and_made_once(near, tmp_path):
    made = (near.folder / "metric" / "checkpoint.eqx").stat().st_mtime_ns
    table = (near.folder / "neighbours.table").stat().st_mtime_ns
    other = ploff.train(
        random_log(), "ploff", out=tmp_path / "other", metric=near.folder, settings={**TINY, "actor_weight": 1},
        **BRIEF,
    )  # fmt: skip
    assert not (tmp_path / "other" / "metric").exists()
    assert runs.metric_folder(other.folder).resolve() == near.folder.resolve()
    assert (near.folder / "metric" / "checkpoint.eqx").stat().st_mtime_ns == made
    assert (near.folder / "neighbours.table").stat().st_mtime_ns == table
    with pytest.raises(PloffError, match="was learned from another dataset"):
        ploff.train(
            random_log(seed=9), "ploff", out=tmp_path / "third", metric=near.folder, settings=TINY, **BRIEF
        )


def test_a_metric_that_was_learned_before_is_used_as_it_is(tmp_path):
    data, length = random_log(), MetricTraining(steps=20, seed=1)
    learned = learn_metric(data, SMALL_METRIC, length, out=tmp_path, quiet=True)
    ploff.train(data, "ploff", out=tmp_path, settings=TINY, **BRIEF | {"steps": 10})
    assert load_metric(tmp_path).fingerprint == learned.fingerprint
    assert json.loads((tmp_path / "config.json").read_text())["metric"]["settings"]["steps"] == 20
    with pytest.raises(PloffError, match="was learned for 20 steps, not 30; leave --metric-steps out"):
        ploff.train(data, "ploff", out=tmp_path, settings=TINY, **BRIEF | {"metric_steps": 30})
    with pytest.raises(PloffError, match=r"learned with discount=0\.9, not 0\.5"):
        ploff.train(data, "ploff", out=tmp_path, settings={**TINY, "metric.discount": 0.5}, **BRIEF)


def test_a_run_does_not_go_on_with_other_bounds_of_its_actions(tmp_path, swings):
    ploff.train(swings, "bc", out=tmp_path, settings=TINY, **BRIEF | {"steps": 10})
    space = swings.action_space
    wider = dataclasses.replace(swings, action_space=ActionSpace.box(space.low, np.add(space.high, 1.0)))
    with pytest.raises(PloffError, match="trained on another dataset"):
        ploff.train(wider, "bc", out=tmp_path, settings=TINY, **BRIEF | {"steps": 20})


def test_settings_may_be_lists_and_readings_zero():
    assert settings.typed(agents.method("bc").config_type, {"hidden": [8, 8]}, "x") == {"hidden": (8, 8)}
    reading = {"action_low": 0.0, "action_high": 1.0, "horizon": None, "columns": {}}
    assert runs.given(reading) == {"action_low": 0.0, "action_high": 1.0}


def test_only_environments_that_every_process_knows_are_made_in_others(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {"here": lambda **_: None})
    monkeypatch.setitem(gym.registry, "Mine-v0", gym.envs.registration.EnvSpec("Mine-v0", lambda: None))
    its = gym.envs.registration.EnvSpec("Its-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    monkeypatch.setitem(gym.registry, "Its-v0", its)
    known = ("hopper", "CartPole-v1", "package:Its-v0")
    assert all(map(registry.known_everywhere, known))
    assert not any(map(registry.known_everywhere, ("here", "Mine-v0", "Its-v0", "Nobody-v0")))


def test_the_options_of_a_logs_environment_reach_the_evaluation_and_no_other_environment(tmp_path, swings):
    brief = dataclasses.replace(swings.origin, environment="Pendulum-v1", options='{"max_episode_steps": 7}')
    data = dataclasses.replace(swings, origin=brief)
    run = ploff.train(data, "bc", out=tmp_path / "run", settings=TINY, **BRIEF | {"steps": 10})
    assert json.loads((run.folder / "seed-0" / "evaluation.json").read_text())["lengths"] == [7, 7]
    assert arena.find_arena(data, "Pendulum-v1", None, quiet=True).options == {"max_episode_steps": 7}
    datasets.save(data, tmp_path / "log.npz")
    assert datasets.load(tmp_path / "log.npz", environment="MountainCarContinuous-v0").origin.options == "{}"
    odd = dataclasses.replace(data, origin=dataclasses.replace(brief, options='{"colour": 1}'))
    with pytest.warns(PloffWarning, match="trained and not tried: Pendulum-v1 cannot be made with colour"):
        assert arena.find_arena(odd, None, None, quiet=True) is None


def test_an_environment_that_cannot_be_imported_is_one_line():
    with pytest.raises(PloffError, match="Gymnasium cannot make 'no_such_package:Foo-v0'"):
        registry.make("no_such_package:Foo-v0")


def test_a_metric_that_was_cut_off_is_finished_first(near, tmp_path):
    """The checkpoint is put back to the middle of its training."""
    data = random_log()
    config = dataclasses.replace(load_metric(near.folder).config)
    length = MetricTraining(steps=10)
    learn_metric(data, config, length, out=tmp_path, quiet=True)
    path = tmp_path / "metric" / "checkpoint.eqx"
    header, _, arrays = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(header), "finished": False}).encode() + b"\n" + arrays)
    plan = settings.metric_plan(
        "default", 20, {name.removeprefix("metric."): v for name, v in TINY_METRIC.items()}
    )
    stages.prepare("learned", tmp_path, data, plan, quiet=True)
    assert storage.load_header(path)["step"] == 20
    assert storage.load_header(path)["finished"]


def test_neighbours_of_another_metric_are_found_anew_and_its_policies_refused(near, tmp_path):
    shutil.copytree(near.folder, tmp_path / "copy")
    folder, data = tmp_path / "copy", random_log()
    shutil.rmtree(folder / "metric")
    learn_metric(data, SMALL_METRIC, MetricTraining(steps=20, seed=1), out=folder, quiet=True)
    with pytest.raises(PloffError, match="was trained with another metric"):
        ploff.train(data, "ploff", out=folder, settings=TINY, **BRIEF)
    source = stages.parts("learned", folder, data)[2]
    assert storage.load_header(folder / "neighbours.table")["metric"] == source.metric


def test_the_plain_distance_serves_the_same_agent(tmp_path):
    run = ploff.train(random_log(), "ploff-l2", out=tmp_path, settings=TINY, **BRIEF | {"steps": 10})
    assert (tmp_path / "neighbours-l2.table").exists()
    assert not (tmp_path / "metric").exists()
    assert run.seeds[0].history[-1]["distance"] > 0


def test_explaining_a_run_explains_its_policy(near):
    explanation = runs.open_explainer(near.folder, random_log()).row(5, 3)
    expected = near.policy()(np.asarray(random_log().observations)[5:6])[0]
    assert explanation.origin == "policy"
    np.testing.assert_allclose(explanation.action, expected, rtol=1e-6)


# Policies.


def test_a_policy_needs_neither_its_run_nor_its_dataset(whole, swings, tmp_path):
    copy = tmp_path / "elsewhere.eqx"
    shutil.copy(whole.folder / "seed-0" / "policy.eqx", copy)
    assert copy.stat().st_size < (whole.folder / "seed-0" / "checkpoint.eqx").stat().st_size / 3
    policy = ploff.load_policy(copy)
    states = np.asarray(swings.observations)[:5]
    np.testing.assert_array_equal(policy(states), whole.policy()(states))
    last = json.loads((whole.folder / "seed-0" / "evaluation.json").read_text())
    again = evaluate(policy, "Pendulum-v1", episodes=2, seed=last["seed"])
    np.testing.assert_array_equal(again.returns, last["returns"])


@pytest.mark.parametrize("name", sorted(agents.METHODS))
def test_a_policy_acts_as_its_method_does(name, near, tmp_path):
    """What the file leaves out is not missed."""
    from ploff.pipeline.policy import load_policy, policy_of, save_policy

    method = agents.METHODS[name]
    try:
        config = method.config(hidden=(8, 8))
    except ModuleNotFoundError:
        pytest.skip("not there yet")
    log, _ = stages.build_log("learned", near.folder, random_log())
    state = method.init(jax.random.key(1), log, config)
    policy = policy_of(method.act, state, (4,), log.data.observation_units)
    save_policy(tmp_path / "policy.eqx", policy, log.data.action_space, name, config)
    raw = np.asarray(random_log().observations)[:6]
    wanted = method.act(state, log.data.states(np.arange(6)))
    np.testing.assert_allclose(load_policy(tmp_path / "policy.eqx")(raw), wanted, rtol=1e-5, atol=1e-6)
    assert len(jax.tree.leaves(policy.state)) < len(jax.tree.leaves(state))


def test_a_policy_that_is_not_there_is_said_so(whole, tmp_path):
    with pytest.raises(PloffError, match="no run folder"):
        ploff.load_policy(tmp_path / "nowhere")
    with pytest.raises(PloffError, match="no policy in"):
        ploff.load_policy(tmp_path)
    with pytest.raises(PloffError, match="has no seed 7; it has 0"):
        ploff.load_policy(whole.folder, seed=7)
    with pytest.raises(PloffError, match="observations of shape"):
        whole.policy()(np.zeros((2, 9)))


# Several seeds.


def test_seeds_in_processes_end_as_each_alone_and_one_that_fails_is_named(whole, swings, tmp_path):
    """Networks as small as these are computed on one core by whoever has more, so the bits agree."""
    damaged = tmp_path / "seed-2" / "checkpoint.eqx"
    damaged.parent.mkdir()
    damaged.write_bytes(
        (whole.folder / "seed-0" / "checkpoint.eqx").read_bytes()[:-2000].replace(b'"seed": 0', b'"seed": 2')
    )
    with pytest.raises(
        PloffError, match=r"td3-bc seed 2 failed: .*does not hold what was expected.*other 2 are done"
    ):
        ploff.train(swings, "td3-bc", out=tmp_path, settings=TINY, seeds=3, **BRIEF)
    assert_same_end(whole.folder, tmp_path, seed=0)
    assert arrays_of(tmp_path, 0) != arrays_of(tmp_path, 1)
    alone = ploff.train(swings, "td3-bc", out=tmp_path / "alone", settings=TINY, seeds=[1], **BRIEF)
    assert_same_end(alone.folder, tmp_path, seed=1)


def test_on_one_core_seeds_follow_each_other_and_a_failure_stops_none(whole, swings, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "available_cores", lambda: [0])
    (tmp_path / "seed-0").mkdir()
    checkpoint = (whole.folder / "seed-0" / "checkpoint.eqx").read_bytes()
    (tmp_path / "seed-0" / "checkpoint.eqx").write_bytes(checkpoint[:-2000])
    with pytest.raises(PloffError, match=r"td3-bc seed 0 failed: .*other 1 are done"):
        ploff.train(swings, "td3-bc", out=tmp_path, settings=TINY, seeds=2, **BRIEF)
    assert runs.load_run(tmp_path).seeds[1].step == 40


def test_ctrl_c_leaves_every_seed_resumable(swings, tmp_path):
    log = str(datasets.save(swings, tmp_path / "log.npz"))
    out = tmp_path / "run"
    # A shell's background job, such as this test may be, ignores Ctrl-C, and so would what it starts.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import ploff.cli; ploff.cli.main()"
    length = ["--steps", "10000000", "--seeds", "2", "--environment", "none", "--out", str(out)]
    options = [*length, "--method", "bc", "--set", "hidden=8,8", "batch=16"]
    command = [sys.executable, "-c", code, "train", log, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(list(out.glob("seed-*/checkpoint.eqx"))) < 2:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130, said
    assert "interrupted; run the same command again to go on" in said
    for seed in range(2):
        assert storage.load_header(out / f"seed-{seed}" / "checkpoint.eqx")["step"] > 0


# What is said while it runs.


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        ({"largest_q": 11.0}, {"largest_q": 12.0}, "a value of 11, where 10 is the most there can be"),
        ({"mean_q": -10.5}, {"mean_q": -11.0}, "worth -10.5 on average, where -10 is the least there can be"),
    ],
)
def test_a_value_that_cannot_be_is_said_once_and_training_goes_on(first, later, said, tmp_path):
    data = random_log()
    job = agent.SeedJob(
        folder=tmp_path, method="td3-off", config=agents.method("td3-off").config(discount=0.9), seed=0,
        training=settings.AgentTraining(), data=data, dataset="", evidence_folder=tmp_path,
    )  # fmt: skip
    log, _ = stages.build_log("none", tmp_path, data)
    loop = Loop("toy", lambda state, key: (state, None), jax.numpy.zeros(()), (), seed=0)
    reported = []
    watcher = agent._Watcher(job, log, loop, agent.Sink, lambda step, row: reported.append((step, row)))
    watcher.sink = pool_sink()
    row = {"step": 10, "largest_q": 9.0, "mean_q": -9.0, "distance": 0.0}
    assert watcher.complete(row) == {
        "step": 10,
        "largest_q": 9.0,
        "mean_q": -9.0,
        "q_bound": pytest.approx(10.0),
    }
    with pytest.warns(PloffWarning, match=f"td3-off seed 0, before step 20: .*{said}"):
        watcher.complete({**row, "step": 20, **first})
    watcher.complete({**row, "step": 30, **later})  # a second warning would be an error here
    assert [step for step, _ in reported] == [10, 20, 30]


def pool_sink():
    class Drop:
        def write(self, step, values): ...

    return Drop()


def test_tensorboard_gets_what_the_csv_files_get(swings, tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto import event_pb2

    run = ploff.train(swings, "bc", out=tmp_path, settings=TINY, log="tensorboard", **BRIEF | {"steps": 20})
    (file,) = (tmp_path / "seed-0" / "tensorboard").iterdir()
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


def test_weights_and_biases_gets_rows_by_step_and_an_absent_package_names_its_extra(tmp_path, monkeypatch):
    from ploff.pipeline.sinks import open_sink

    class Run:
        def __init__(self):
            self.rows, self.finished = [], False

        def log(self, values, step):
            self.rows.append((step, values))

        def finish(self):
            self.finished = True

    class Module:
        run = Run()

        @classmethod
        def init(cls, **options):
            cls.options = options
            return cls.run

    monkeypatch.setitem(sys.modules, "wandb", Module)
    with open_sink("wandb", tmp_path, "bc seed 0", {"batch": 16}) as sink:
        sink.write(10, {"score": 1.0})
    assert Module.run.rows == [(10, {"score": 1.0})]
    assert Module.run.finished
    assert Module.options["config"] == {"batch": 16}
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(PloffError, match=r"ploff\[wandb\]"), open_sink("wandb", tmp_path, "", {}):
        pass


# Settings and errors.


def test_settings_are_read_as_their_types():
    kind = agents.method("td3-off").config_type
    given = {"hidden": "64,32", "layer_norm": "true", "batch": "8", "discount": "0.5", "noise": 0.1}
    read = settings.typed(kind, given, "setting")
    assert read == {"hidden": (64, 32), "layer_norm": True, "batch": 8, "discount": 0.5, "noise": 0.1}
    for name, text, message in (
        ("batch", "0.5", "a whole number, got '0.5'"),
        ("discount", "high", "a number, got 'high'"),
        ("layer_norm", "maybe", "true or false, got 'maybe'"),
    ):
        with pytest.raises(PloffError, match=message):
            settings.typed(kind, {name: text}, "setting")
    with pytest.raises(PloffError, match="is one of mean"):
        settings.typed(agents.method("ploff").config_type, {"bonus": "no"}, "setting")
    with pytest.raises(UnknownNameError, match="did you mean 'discount'"):
        settings.typed(kind, {"discont": "1"}, "setting")


def test_settings_find_their_owner():
    given = {"batch": 8, "ploff.actor_weight": 2, "metric.rows": 4}
    owned = settings.by_owner(given, ["bc", "ploff"])
    assert owned == {"bc": {"batch": 8}, "ploff": {"batch": 8, "actor_weight": 2}, "metric": {"rows": 4}}
    with pytest.raises(UnknownNameError, match="owner of a setting 'iql'"):
        settings.by_owner({"iql.batch": 8}, ["bc"])


def test_presets_differ_in_length_and_the_papers_in_settings():
    assert settings.agent_training("paper").steps == 500_000
    assert settings.agent_training("quick", steps=None).steps < settings.agent_training("default").steps
    assert settings.agent_training("quick", steps=7).steps == 7
    printed = settings.method_config(agents.method("ploff"), "paper", {"batch": "8"})
    assert (printed.critic_form, printed.batch) == ("paper", 8)
    assert settings.method_config(agents.method("bc"), "paper", {}) == agents.method("bc").config()
    assert settings.metric_plan("paper", None, {}).training.steps == 2_000_000
    assert settings.metric_plan("default", None, {}).training == MetricTraining()


def test_an_unknown_preset_is_named(tmp_path, swings):
    with pytest.raises(PloffError, match="unknown preset 'papr'; did you mean 'paper'"):
        ploff.train(swings, "bc", out=tmp_path / "run", preset="papr")  # pyright: ignore[reportArgumentType]


def test_the_command_and_the_library_know_the_same_presets():
    hints = typing.get_type_hints(Train)
    assert typing.get_args(hints["preset"]) == settings.PRESETS


def test_a_difference_is_found_on_both_sides(tmp_path):
    was = {"dataset": "a", "arena": {"environment": "hopper"}, "config": {"hidden": [2, 3]}}
    refuse_difference(tmp_path, was, {**was, "config": {"hidden": (2, 3)}})
    for wanted, message in (
        ({**was, "dataset": "b"}, "another dataset"),
        ({**was, "arena": None}, "environment=hopper, not None"),
        ({**was, "config": {"hidden": (2,)}}, r"hidden=\(2, 3\), not \(2,\)"),
    ):
        with pytest.raises(PloffError, match=message):
            refuse_difference(tmp_path, was, wanted)


def test_chunks_fit_between_evaluations():
    for every, chunk in ((5000, 1000), (700, 700), (1500, 750), (1009, 505), (10, 10)):
        assert settings.AgentTraining(evaluate_every=every).chunk == chunk


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "--method", "plof"], "unknown method 'plof'; did you mean 'ploff'"),
        (["samples"], "unknown dataset 'samples'"),
        (
            ["sample", "--method", "bc", "--set", "bach=1"],
            "unknown setting of bc 'bach'; did you mean 'batch'",
        ),
        (
            ["sample", "--method", "bc", "--set", "batch=many"],
            "setting of bc batch is a whole number, got 'many'",
        ),
        (["sample", "--method", "bc", "--set", "batch=0"], "batch must be a whole number, at least 1, got 0"),
        (["sample", "--method", "bc", "--set", "batch"], "NAME=VALUE, got 'batch'"),
        (["sample", "--method", "bc", "--environment", "hoper"], "unknown environment 'hoper'"),
        (["sample", "--method", "bc", "--environment", "Pendulum-v1"], "Pendulum-v1 has observations (3,)"),
        (["sample", "--method", "bc", "--steps", "0"], "steps must be a whole number, at least 1"),
        (["sample", "--method", "bc", "--seeds", "0"], "at least one seed"),
        (["discrete.npz", "--method", "bc"], "3 discrete actions"),
        (["sample", "--metric", "nowhere/x", "--set", "metric.rows=3"], "rows must be even"),
    ],
)
def test_mistakes_are_one_line_before_any_training(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "discrete.npz":
        datasets.save(discrete_log(), "discrete.npz")
    with pytest.raises(SystemExit) as exit:
        cli.main(["train", *arguments, "--out", "run"])
    said = capsys.readouterr().err
    assert exit.value.code == 2
    assert message in said
    assert said.count("\n") == 1
    assert not pathlib.Path("run").exists()


def test_a_damaged_run_folder_is_said_in_one_line(tmp_path, swings):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(PloffError, match=r"config\.json is not valid JSON"):
        ploff.train(swings, "bc", out=tmp_path, settings=TINY, **BRIEF)
    (tmp_path / "config.json").unlink()
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / "checkpoint.eqx").write_bytes(b"\x00\x01")
    with pytest.raises(PloffError, match="damaged; delete it to start anew"):
        ploff.train(swings, "bc", out=tmp_path, settings=TINY, **BRIEF)


def test_the_command_compares_methods_in_a_table(swings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pool, "available_cores", lambda: [0])
    log = str(datasets.save(swings, tmp_path / "log.npz"))
    arguments = [
        "train",
        log,
        "--method",
        "bc,td3-off",
        "--steps",
        "10",
        "--episodes",
        "1",
        "--out",
        str(tmp_path / "r"),
    ]
    settings = [
        "--set",
        "hidden=8,8",
        "batch=16",
        "--set",
        "actor_rate=0.002",
    ]  # behind one, or each behind its own
    cli.main([*arguments, "--environment", "Pendulum-v1", *settings])
    table = capsys.readouterr().out
    assert "the data's episodes" in table
    assert "bc" in table
    assert "td3-off" in table
    assert pool.run_jobs([]) == []
    run = runs.load_run(tmp_path / "r" / "bc")
    assert run.method == "bc"
    chosen = storage.read_json(tmp_path / "r" / "bc" / "config.json")["settings"]
    assert (chosen["hidden"], chosen["batch"], chosen["actor_rate"]) == ([8, 8], 16, 0.002)
