"""From a log to evaluated policies: stages reused, runs resumed, seeds side by side, errors in one line."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import ploff
from experiment_cases import (
    BRIEF,
    TINY,
    TINY_METRIC,
    arrays_of,
    assert_same_end,
    scored_log,
    small_suite,
    swings,
    wait_until,
)
from metric_cases import discrete_log, random_log
from ploff import PloffError, cli, datasets
from ploff.environments.collection import collect
from ploff.environments.evaluation import evaluate
from ploff.experiments import agent_run, api, stages, summary
from ploff.experiments.run_folder import load_suite
from ploff.experiments.run_suite import run_suite
from ploff.experiments.store import Store
from ploff.experiments.suite import parse_suite
from ploff.metric.train import load_metric
from ploff.training.checkpoint import load_header, save_tree

FILES = {"checkpoint.eqx", "history.csv", "evaluations.csv", "evaluation.json", "policy.eqx", ".lock"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole")
    return ploff.train(swings(), "td3-bc", out=out, settings=TINY, **BRIEF)


@pytest.fixture(scope="module")
def near(tmp_path_factory):
    """PLOff on a log without an environment, and where it is."""
    out = tmp_path_factory.mktemp("near")
    given = {**TINY, **TINY_METRIC}
    return ploff.train(random_log(), "ploff", out=out, settings=given, metric_steps=20, **BRIEF), out


def out_of(run):
    """The folder that a run was trained into."""
    return run.folder.parents[2]


# Discrete actions.


@pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")
def test_discrete_actions_go_from_log_to_evaluation_and_explanation(tmp_path, capsys):
    log = collect("CartPole-v1", transitions=200, seed=0)
    given = {**TINY, **TINY_METRIC}
    names = ["discrete-ploff", "bc"]
    runs = ploff.compare(log, names, out=tmp_path / "run", settings=given, metric_steps=20, **BRIEF)
    assert [run.method for run in runs] == ["discrete-ploff", "discrete-bc"]
    assert all(len(run.returns) == 1 and run.returns[0] >= 1 for run in runs)
    assert set(np.unique(runs[0].policy()(log.observations[:50]))) <= {0, 1}
    cli.main(["explain", str(runs[0].folder), "--row", "5", "--count", "2"])
    printed = capsys.readouterr().out
    assert "probability" in printed
    assert printed.count("100.0%") >= 1
    with pytest.raises(PloffError, match=r"has observations \(4,\) and 2 discrete actions; the log has \(5,\) and 3"):
        ploff.train(discrete_log(), "bc", out=tmp_path / "other", environment="CartPole-v1", **BRIEF)


# What a run leaves.


def test_a_run_folder_holds_all_that_is_needed(whole):
    assert {path.name for path in (whole.folder / "seed-0").iterdir()} == FILES
    config = json.loads((whole.folder / "config.json").read_text())
    assert (config["method"], config["environment"], config["physics"]) == ("td3-bc", "Pendulum-v1", "d4rl")
    assert config["settings"]["hidden_sizes"] == [8, 8]
    assert {"ploff", "jax", "gymnasium", "python"} <= set(config["versions"])
    assert config["data"]["mean_return"] == pytest.approx(swings().episode_returns().mean())
    last = json.loads((whole.folder / "seed-0" / "evaluation.json").read_text())
    assert last["step"] == 40
    header = (whole.folder / "seed-0" / "history.csv").read_text().splitlines()[0]
    assert set(header.split(",")) == {"step", "critic_loss", "actor_loss", "mean_q", "max_q", "q_bound"}


def test_evaluations_are_where_they_belong_and_the_score_is_the_mean_of_the_last_three(whole):
    (result,) = whole.seeds
    assert [row["step"] for row in result.evaluations] == [10, 20, 30, 40]
    for row in result.evaluations:
        assert row["mean_return"] == pytest.approx((row["return_0"] + row["return_1"]) / 2)
        assert row["min_return"] == min(row["return_0"], row["return_1"])
    expected = np.mean([row["mean_return"] for row in result.evaluations[1:]])
    assert result.mean_return == pytest.approx(expected)
    assert result.score is None  # Pendulum has no references
    assert ploff.load_run(out_of(whole)).returns == whole.returns
    assert len((out_of(whole) / "evaluations.csv").read_text().splitlines()) == 5


def test_the_last_step_is_evaluated_wherever_it_falls(tmp_path):
    run = ploff.train(swings(), "bc", out=tmp_path, settings=TINY, **BRIEF | {"steps": 25})
    assert [row["step"] for row in run.seeds[0].evaluations] == [10, 20, 25]


def test_a_run_of_a_suite_is_that_of_ploff_train(tmp_path):
    log = scored_log(tmp_path)
    tiny = {"hidden_sizes": (16, 16), "batch_size": 16}
    lengths = {"steps": 40, "evaluate_every": 20, "episodes": 1}
    run = ploff.train(log, "bc", out=tmp_path / "train", settings=tiny, quiet=True, **lengths)
    suite = small_suite(log, methods={"bc": {"settings": tiny}}, seeds=1)
    outcome = run_suite(suite, tmp_path / "suite", serial=True, quiet=True)
    assert outcome.results.runs[0][3] == run.seeds[0].score
    (folder,) = (tmp_path / "suite" / "runs").glob("*/*")
    assert_same_end(run.folder, folder)


# Resuming.


def test_a_run_that_is_done_is_left_as_it_is(whole):
    before = (whole.folder / "seed-0" / "policy.eqx").read_bytes()
    again = ploff.train(swings(), "td3-bc", out=out_of(whole), settings=TINY, **BRIEF)
    assert again.seeds == whole.seeds
    assert (whole.folder / "seed-0" / "policy.eqx").read_bytes() == before


def test_a_run_that_is_made_longer_ends_like_one_that_was_long(whole, tmp_path):
    ploff.train(swings(), "td3-bc", out=tmp_path, settings=TINY, **BRIEF | {"steps": 20})
    longer = ploff.train(swings(), "td3-bc", out=tmp_path, settings=TINY, **BRIEF)
    assert_same_end(whole.folder, longer.folder)


KILLED = """
import ploff
from ploff.experiments.run_suite import run_suite
from ploff.experiments.suite import parse_suite
from ploff.training import loop

if __name__ == "__main__":
    loop.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    run_suite(parse_suite({suite!r}), {out!r}, serial={serial!r}, workers=1, quiet=True)
"""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A suite that nothing interrupted, as a file has it, and what came of it."""
    folder = tmp_path_factory.mktemp("unbroken")
    tiny = {"settings": {"hidden_sizes": [8, 8], "batch_size": 16}}
    metric = {"hidden_sizes": [16], "embedding_size": 4, "batch_size": 16, "num_next_actions": 2}
    content = {
        "name": "unbroken", "tasks": [str(scored_log(folder))], "seeds": 1, "steps": 240, "evaluate_every": 40,
        "episodes": 1, "metric_steps": 1_500, "metric": metric, "methods": {"ploff": tiny}, "neighbor_parts": 1,
    }  # fmt: skip
    return content, run_suite(parse_suite(content), folder / "out", serial=True, quiet=True), folder / "out"


@pytest.mark.parametrize(
    ("serial", "stage", "begun"),
    [
        (True, "metric", "metrics/*/metric.eqx"),
        (True, "neighbors", "metrics/*/dataset.json"),
        (True, "agent", "runs/*/*/seed-0/checkpoint.eqx"),
        (False, "metric", "metrics/*/metric.eqx"),
        (False, "agent", "runs/*/*/seed-0/checkpoint.eqx"),
    ],
)
def test_a_suite_killed_in_any_stage_and_resumed_ends_the_same(unbroken, serial, stage, begun, tmp_path):
    content, expected, whole = unbroken
    out, script = tmp_path / "killed", tmp_path / "driver.py"
    script.write_text(KILLED.format(suite=content, out=str(out), serial=serial))
    process = subprocess.Popen([sys.executable, str(script)])

    def is_there():
        if stage == "neighbors":
            return any(record["kind"] == "metric" for record in Store(out).records.values())
        return any(out.glob(begun))

    while process.poll() is None and not is_there():
        time.sleep(0.01)
    time.sleep(np.random.default_rng().uniform(0, 0.3))  # any moment: a failure here is a bug whenever it comes
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not any(record["kind"] == "agent" for record in Store(out).records.values()), "it was killed too late"
    wait_until(lambda: _is_free(out))  # workers end with their driver
    resumed = run_suite(parse_suite(content), out, serial=serial, workers=1, quiet=True)
    assert resumed.failures == expected.failures == []
    assert resumed.results == expected.results
    assert_same_end(*(next((place / "runs").glob("*/*")) for place in (out, whole)))


def _is_free(out):
    try:
        with Store(out).writing():
            return True
    except PloffError:
        return False


def test_an_evaluation_that_was_interrupted_is_made_up_for(whole, tmp_path, monkeypatch):
    class Once:
        calls = 0

        def __call__(self, *arguments, **options):
            Once.calls += 1
            if Once.calls == 2:
                raise KeyboardInterrupt
            return evaluate(*arguments, **options)

    monkeypatch.setattr(agent_run, "evaluate", Once())
    with pytest.raises(KeyboardInterrupt, match="run the same command again to go on: td3-bc seed 0 at step 20"):
        ploff.train(swings(), "td3-bc", out=tmp_path, settings=TINY, **BRIEF)
    (checkpoint,) = tmp_path.glob("runs/*/*/seed-0/checkpoint.eqx")
    assert load_header(checkpoint)["step"] == 20
    resumed = ploff.train(swings(), "td3-bc", out=tmp_path, settings=TINY, **BRIEF)
    assert_same_end(whole.folder, resumed.folder)


def test_an_interrupt_between_the_loops_says_how_to_go_on_too(tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "build_index", interrupted)
    with pytest.raises(KeyboardInterrupt, match="interrupted; run the same command again to go on"):
        ploff.train(swings(), "ploff-l2", out=tmp_path, settings=TINY, **BRIEF)


def test_other_settings_are_another_run_and_fewer_steps_are_refused(whole, tmp_path):
    first = ploff.train(swings(), "bc", out=tmp_path, settings=TINY, **BRIEF)
    other = ploff.train(swings(), "bc", out=tmp_path, settings={**TINY, "actor_lr": 0.01}, **BRIEF)
    assert first.folder != other.folder
    assert arrays_of(first.folder) != arrays_of(other.folder)
    assert ploff.load_run(tmp_path).folder == other.folder  # that of the last command
    with pytest.raises(PloffError, match="trained for 40 steps, more than 20"):
        ploff.train(swings(), "td3-bc", out=out_of(whole), settings=TINY, **BRIEF | {"steps": 20})


def test_other_data_under_the_same_name_is_refused(tmp_path):
    log = scored_log(tmp_path)
    ploff.train(log, "bc", out=tmp_path / "run", settings=TINY, **BRIEF | {"steps": 10})
    datasets.save(collect("Pendulum-v1", transitions=400, seed=4), log, overwrite=True)
    with pytest.raises(PloffError, match=r"is not what it was when .* was begun"):
        ploff.train(log, "bc", out=tmp_path / "run", settings=TINY, **BRIEF | {"steps": 20})
    wider = dataclasses.replace(swings(), action_space=ploff.ActionSpace.box([-2.0], [3.0]))
    datasets.save(wider, log, overwrite=True)
    with pytest.raises(PloffError, match=r"is not what it was when .* was begun"):
        ploff.train(log, "bc", out=tmp_path / "run", settings=TINY, **BRIEF | {"steps": 20})


def test_two_commands_on_one_folder_do_not_meet(whole):
    with Store(out_of(whole)).writing(), pytest.raises(PloffError, match="another command is writing to"):
        ploff.train(swings(), "td3-bc", out=out_of(whole), settings=TINY, **BRIEF | {"steps": 50})


def test_a_folder_of_another_version_is_refused_in_one_line(tmp_path):
    for name, content in (("config.json", '{"method": "bc"}'), ("suite.json", '{"name": "old"}')):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(content)
        with pytest.raises(PloffError, match="was made by another version of ploff; choose another --out"):
            ploff.train(swings(), "bc", out=folder, settings=TINY, **BRIEF)


# The metric and the neighbors.


def test_without_an_environment_a_policy_is_trained_and_watched(near, tmp_path, capfd):
    run, _ = near
    (result,) = run.seeds
    assert result.step == 40
    assert result.evaluations == []
    assert {"mean_q", "max_q", "q_bound", "data_distance"} <= set(result.history[-1])
    assert result.history[-1]["data_distance"] > 0
    ploff.train(random_log(), "bc", out=tmp_path, settings=TINY, **BRIEF | {"quiet": False})
    assert capfd.readouterr().err.count("no environment is known") == 1


def test_a_metric_is_shared_by_methods_and_runs_and_made_once(near, tmp_path):
    _, out = near
    (metric,) = out.glob("metrics/*")
    made = [(metric / name).stat().st_mtime_ns for name in ("metric.eqx", "neighbors.table")]
    given = {**TINY, "actor_bonus_weight": 1}
    other = ploff.train(random_log(), "ploff", out=tmp_path / "other", metric=out, settings=given, **BRIEF)
    assert not (tmp_path / "other" / "metrics").exists()
    assert (other.folder / other.config["metric"]).resolve() == metric.resolve()
    assert [(metric / name).stat().st_mtime_ns for name in ("metric.eqx", "neighbors.table")] == made
    with pytest.raises(PloffError, match="was learned from another dataset"):
        ploff.train(random_log(seed=9), "ploff", out=tmp_path / "third", metric=out, settings=TINY, **BRIEF)
    given = {**TINY, "metric.discount": 0.5}
    with pytest.raises(PloffError, match=r"learned with discount=0\.9, not 0\.5"):
        ploff.train(random_log(), "ploff", out=tmp_path / "fourth", metric=out, settings=given, **BRIEF)
    with pytest.raises(PloffError, match="no learned metric in"):
        ploff.train(random_log(), "ploff", out=tmp_path / "fifth", metric=tmp_path, settings=TINY, **BRIEF)


def test_a_metric_that_was_learned_by_its_own_command_is_used_by_training(tmp_path):
    log = str(datasets.save(random_log(), tmp_path / "log.npz"))
    given = [f"{name.removeprefix('metric.')}={_text(value)}" for name, value in TINY_METRIC.items()]
    command = ["metric", log, "--out", str(tmp_path / "run"), "--steps", "20", "--no-figures", "--set", *given]
    cli.main(command)
    settings = {**TINY, **TINY_METRIC}
    ploff.train(log, "ploff", out=tmp_path / "run", settings=settings, metric_steps=20, **BRIEF)
    assert len(list((tmp_path / "run" / "metrics").glob("*"))) == 1
    ploff.train(log, "ploff", out=tmp_path / "run", settings=settings, metric_steps=30, **BRIEF)
    assert len(list((tmp_path / "run" / "metrics").glob("*"))) == 2


def test_learning_a_metric_into_a_runs_folder_does_not_change_where_it_is_evaluated(tmp_path):
    log = scored_log(tmp_path)
    ploff.train(log, "bc", out=tmp_path / "run", settings=TINY, **BRIEF | {"steps": 10})
    config = {name.removeprefix("metric."): value for name, value in TINY_METRIC.items()}
    api.learn_metric_in(log, tmp_path / "run", preset="default", config=config, training={"steps": 20}, quiet=True)
    longer = ploff.train(log, "bc", out=tmp_path / "run", settings=TINY, **BRIEF | {"steps": 20})
    assert [row["step"] for row in longer.seeds[0].evaluations] == [10, 20]


def test_a_longer_metric_goes_on_from_a_shorter_one_and_ends_as_if_it_had_not(tmp_path):
    log = str(datasets.save(random_log(), tmp_path / "log.npz"))
    config = {name.removeprefix("metric."): value for name, value in TINY_METRIC.items()}

    def learn(out, steps):
        folder = api.learn_metric_in(
            log, tmp_path / out, preset="default", config=config, training={"steps": steps}, quiet=True
        )
        return load_metric(folder)

    learn("short", 500)
    longer, whole = learn("short", 1000), learn("whole", 1000)
    assert longer.fingerprint == whole.fingerprint
    assert len(longer.history) == 2


def _text(value):
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def test_the_plain_distance_serves_the_same_agent(tmp_path):
    seen = {"steps": 10, "relevance": True}
    run = ploff.train(random_log(), "ploff-l2", out=tmp_path, settings=TINY, **BRIEF | seen)
    (metric,) = (tmp_path / "metrics").glob("*")
    assert "-l2-relevance-" in metric.name
    assert run.seeds[0].history[-1]["data_distance"] > 0


# Several seeds, and several methods.


def test_seeds_in_processes_end_as_each_alone_and_one_that_fails_is_named(whole, tmp_path):
    """Networks as small as these are computed on one core by whoever has more, so the bits agree."""
    run = ploff.train(swings(), "td3-bc", out=tmp_path, settings=TINY, seeds=1, **BRIEF)
    damaged = run.folder / "seed-2" / "checkpoint.eqx"
    damaged.parent.mkdir()
    content = (run.folder / "seed-0" / "checkpoint.eqx").read_bytes()[:-2000]
    damaged.write_bytes(content.replace(b'"seed": 0', b'"seed": 2'))
    with pytest.raises(PloffError, match=r"td3-bc seed 2 failed: damaged: .*other 2 are done"):
        ploff.train(swings(), "td3-bc", out=tmp_path, settings=TINY, seeds=3, **BRIEF)
    assert_same_end(whole.folder, run.folder, seed=0)
    assert arrays_of(run.folder, 0) != arrays_of(run.folder, 1)
    alone = ploff.train(swings(), "td3-bc", out=tmp_path / "alone", settings=TINY, seeds=[1], **BRIEF)
    assert_same_end(alone.folder, run.folder, seed=1)


def test_ctrl_c_leaves_every_seed_resumable(tmp_path):
    log = str(datasets.save(swings(), tmp_path / "log.npz"))
    out = tmp_path / "run"
    # A shell's background job, such as this test may be, ignores Ctrl-C, and so would what it starts.
    script = tmp_path / "command.py"
    script.write_text(
        "import signal\nimport ploff.cli\n\nif __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n    ploff.cli.main()\n"
    )
    length = ["--steps", "10000000", "--seeds", "2", "--environment", "none", "--out", str(out)]
    options = [*length, "--method", "bc", "--set", "hidden_sizes=8,8", "batch_size=16"]
    command = [sys.executable, str(script), "train", log, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(list(out.glob("runs/*/*/seed-*/checkpoint.eqx"))) < 2:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130, said
    assert "interrupted; run the same command again to go on: bc seed" in said
    assert said.count("at step") == 2
    for checkpoint in out.glob("runs/*/*/seed-*/checkpoint.eqx"):
        assert load_header(checkpoint)["step"] > 0


def test_the_options_of_a_logs_environment_reach_the_evaluation(tmp_path):
    data = swings()
    brief = dataclasses.replace(data.origin, environment="Pendulum-v1", options='{"max_episode_steps": 7}')
    data = dataclasses.replace(data, origin=brief)
    run = ploff.train(data, "bc", out=tmp_path / "run", settings=TINY, **BRIEF | {"steps": 10})
    assert json.loads((run.folder / "seed-0" / "evaluation.json").read_text())["lengths"] == [7, 7]


def test_settings_may_be_lists_and_readings_zero():
    reading = {"action_low": 0.0, "action_high": 1.0, "horizon": None, "columns": {}}
    assert api.given_reading(reading) == {"action_low": 0.0, "action_high": 1.0}


# Evaluating what was trained.


def test_a_trained_policy_is_evaluated_anew_once(whole, monkeypatch):
    first = api.evaluate_run(out_of(whole), episodes=3, seed=5, quiet=True)
    assert list(first) == ["td3-bc seed 0"]
    assert len(first["td3-bc seed 0"].returns) == 3
    expected = evaluate(whole.policy(), "Pendulum-v1", episodes=3, seed=5)
    np.testing.assert_array_equal(first["td3-bc seed 0"].returns, expected.returns)

    def never(*_, **__):
        raise AssertionError("it was evaluated already")

    monkeypatch.setattr(stages, "evaluate", never)
    again = api.evaluate_run(out_of(whole), episodes=3, seed=5, quiet=True)
    np.testing.assert_array_equal(again["td3-bc seed 0"].returns, expected.returns)


def test_a_policys_file_is_evaluated_without_its_run(whole, tmp_path):
    copy = tmp_path / "policy.eqx"
    copy.write_bytes((whole.folder / "seed-0" / "policy.eqx").read_bytes())
    (outcome,) = api.evaluate_run(copy, episodes=1, quiet=True).values()
    assert outcome.environment == "Pendulum-v1"


def test_a_policys_file_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "planted_env.py").write_text("raise RuntimeError('was imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    env = {"environment": "planted_env:Env-v0", "physics": "d4rl", "references": None, "options": {}}
    save_tree(tmp_path / "policy.eqx", [], {"method": "bc", "eval_env": env})
    with pytest.raises(PloffError, match="whose making imports a module; if you trust it, give --environment"):
        api.evaluate_run(tmp_path / "policy.eqx", quiet=True)


def test_a_policy_that_was_never_evaluated_asks_where(near):
    _, out = near
    with pytest.raises(PloffError, match="does not say where it is evaluated; --environment names a place"):
        api.evaluate_run(out, quiet=True)


# Errors.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "--method", "plof"], "unknown method 'plof'; did you mean 'ploff'"),
        (["samples"], "unknown dataset 'samples'"),
        (
            ["sample", "--method", "bc", "--set", "bach_size=1"],
            "unknown setting of bc 'bach_size'; did you mean 'batch_size'",
        ),
        (["sample", "--method", "bc", "--set", "batch=1"], "setting of bc 'batch' is called 'batch_size' now"),
        (["sample", "--set", "sway=1"], "setting of ploff 'sway' is called 'value_temperature' now"),
        (
            ["sample", "--method", "bc", "--set", "batch_size=many"],
            "setting of bc batch_size is a whole number, got 'many'",
        ),
        (["sample", "--method", "bc", "--set", "batch_size=0"], "batch_size must be a whole number, at least 1, got 0"),
        (["sample", "--method", "bc", "--set", "batch_size"], "NAME=VALUE, got 'batch_size'"),
        (["sample", "--method", "bc", "--environment", "hoper"], "unknown environment 'hoper'"),
        (["sample", "--method", "bc", "--environment", "Pendulum-v1"], "Pendulum-v1 has observations (3,)"),
        (["sample", "--method", "bc", "--steps", "0"], "steps must be a whole number, at least 1"),
        (["sample", "--method", "bc", "--seeds", "0"], "at least one seed"),
        (["discrete.npz", "--method", "prdc"], "has 3 discrete actions, prdc learns no such; discrete-ploff, "),
        (["sample", "--metric", "nowhere/x", "--set", "metric.batch_size=3"], "batch_size must be even"),
        (["sample", "--metric", "nowhere/x"], "no learned metric in nowhere/x"),
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


def test_an_unknown_preset_is_named(tmp_path):
    with pytest.raises(PloffError, match="unknown preset 'papr'; did you mean 'paper'"):
        ploff.train(swings(), "bc", out=tmp_path / "run", preset="papr")  # pyright: ignore[reportArgumentType]


def test_a_damaged_run_folder_is_said_in_one_line(tmp_path):
    run = ploff.train(swings(), "bc", out=tmp_path, settings=TINY, **BRIEF | {"steps": 10})
    (run.folder / "seed-0" / "checkpoint.eqx").write_bytes(b"\x00\x01")
    with pytest.raises(PloffError, match="is not a file of this version"):
        ploff.train(swings(), "bc", out=tmp_path, settings=TINY, **BRIEF | {"steps": 20})
    (tmp_path / "suite.json").write_text("{")
    with pytest.raises(PloffError, match=r"suite\.json is not valid JSON"):
        ploff.train(swings(), "bc", out=tmp_path, settings=TINY, **BRIEF)


def test_the_command_compares_methods_in_a_table_and_says_what_is_next(tmp_path, capfd):
    log = str(datasets.save(swings(), tmp_path / "log.npz"))
    out = str(tmp_path / "r")
    arguments = ["train", log, "--method", "bc,td3-off", "--steps", "10", "--episodes", "1", "--out", out]
    settings = ["--set", "hidden_sizes=8,8", "batch_size=16", "--set", "actor_lr=0.002"]  # behind one, or each its own
    cli.main([*arguments, "--environment", "Pendulum-v1", *settings])
    shown = capfd.readouterr()
    for text in ("the data's episodes", "bc", "td3-off"):
        assert text in shown.out
    assert f"policy: 2 policies in {out}/runs" in shown.err
    assert f"next: `ploff report {out}` draws it all" in shown.err
    suite = load_suite(pathlib.Path(out))
    assert [column.method for column in suite.columns] == ["bc", "td3-off"]
    run = ploff.load_run(next(pathlib.Path(out).glob("runs/*/bc-*")))
    chosen = run.config["settings"]
    assert (chosen["hidden_sizes"], chosen["batch_size"], chosen["actor_lr"]) == ([8, 8], 16, 0.002)
    with pytest.raises(PloffError, match="holds 2 runs; name one of"):
        ploff.load_run(out)
    assert run.method == "bc"


def test_a_policy_that_is_evaluated_nowhere_is_found_again(tmp_path):
    ploff.train(swings(), "bc", out=tmp_path, environment="none", settings={"hidden_sizes": "8"}, **BRIEF)
    assert ploff.load_policy(tmp_path).action_space.width == 1


def test_a_file_that_has_changed_since_is_refused_even_where_all_is_done(tmp_path):
    file, short = tmp_path / "log.npz", {**BRIEF, "settings": {"hidden_sizes": "8"}}
    datasets.save(random_log(), file)
    ploff.train(file, "bc", out=tmp_path / "run", **short)
    datasets.save(random_log(seed=1), file, overwrite=True)
    with pytest.raises(PloffError, match="is not what it was when"):
        ploff.train(file, "bc", out=tmp_path / "run", **short)


def test_what_to_do_next_is_what_can_be_done(tmp_path):
    run = ploff.train(random_log(), "bc", out=tmp_path, settings={"hidden_sizes": "8"}, **BRIEF)
    assert "explain" not in summary.next_steps([run], "out")[-1]
    assert "ploff report out" in summary.next_steps([run], "out")[-1]
