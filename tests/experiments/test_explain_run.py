"""Explanations of a run's policy, or of logged actions where only a metric was learned."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

import ploff
from experiment_cases import BRIEF, TINY, TINY_METRIC
from metric_cases import random_log
from ploff import cli, datasets
from ploff.actions import ActionSpace
from ploff.experiments.api import learn_metric_in
from ploff.experiments.explain_run import open_explainer
from ploff.transitions import Transitions


def log(count=120, seed=0, space=None, episode=30):
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    if space is not None:
        actions = rng.integers(0, space.n, count)
    return Transitions.from_rows(
        observations=rng.normal(size=(count, 3)).astype(np.float32) * 5 + 2,
        actions=actions,
        rewards=rng.uniform(10, 20, count).astype(np.float32),
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % episode == episode - 1,
        action_space=space or ActionSpace.box([-1.0, -1.0], [1.0, 1.0]),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    file = datasets.save(log(), folder / "log.npz")
    config = {"hidden_sizes": (16,), "embedding_size": 4, "batch_size": 16}
    training = {"steps": 20, "scan_length": 10, "check_every": 20}
    learn_metric_in(file, folder / "run", preset="default", config=config, training=training, quiet=True)
    return types.SimpleNamespace(folder=folder / "run", file=file)


def test_the_command_explains_a_row_and_an_observation(run, capsys, tmp_path):
    cli.main(["explain", str(run.folder), "--row", "5", "--count", "3"])
    printed = capsys.readouterr().out
    assert "logged action" in printed
    assert "percentile" in printed
    assert len(printed.strip().splitlines()) >= 6
    assert len(list(run.folder.glob("metrics/*/neighbors.table"))) == 1
    np.save(tmp_path / "x.npy", np.array([1.0, 2.0, 3.0, 0.5, 0.5]))
    cli.main(["explain", str(run.folder), "--observation", str(tmp_path / "x.npy")])
    assert "given action: 0.500 0.500" in capsys.readouterr().out


@pytest.mark.parametrize("given", [(), ("--horizon", "30")])
def test_a_metric_by_itself_explains_its_log_read_as_it_was_then(tmp_path, capsys, given):
    data = log()
    timeouts = {} if given else {"timeouts": data.timeouts}
    np.savez(
        tmp_path / "log.npz",
        observations=data.observations[:120],
        actions=data.actions,
        rewards=data.rewards,
        terminals=data.terminals,
        **timeouts,
    )
    bounds = ["--action-low", "-1", "--action-high", "1"]
    learn = ["metric", str(tmp_path / "log.npz"), "--out", str(tmp_path / "run"), "--steps", "500"]
    cli.main([*learn, *given, *bounds, "--no-figures"])
    cli.main(["explain", str(tmp_path / "run"), "--row", "5"])
    assert "logged action" in capsys.readouterr().out


def test_a_run_of_another_version_is_left_as_it_is(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"method": "bc"}')
    with pytest.raises(SystemExit):
        cli.main(["metric", "sample", "--out", str(tmp_path), "--steps", "500", "--no-figures"])
    assert "was made by another version of ploff" in capsys.readouterr().err
    assert (tmp_path / "config.json").read_text() == '{"method": "bc"}'


def test_explaining_a_run_explains_its_policy(tmp_path):
    given = {**TINY, **TINY_METRIC}
    trained = ploff.train(random_log(), "ploff", out=tmp_path, settings=given, metric_steps=20, **BRIEF)
    explainer, data, _ = open_explainer(tmp_path)
    explanation = explainer.row(5, 3)
    expected = trained.policy()(np.asarray(data.observations)[5:6])[0]
    assert explanation.origin == "policy"
    np.testing.assert_allclose(explanation.action, expected, rtol=1e-6)


def test_a_log_with_its_infos_is_the_same_log(run, tmp_path):
    data = datasets.load(run.file)
    carried = ploff.Transitions(**{**vars(data), "infos": {"time": np.arange(len(data))}})
    assert carried.with_normalized_observations().fingerprint() == data.fingerprint()
    other = datasets.save(carried, tmp_path / "carried.npz")
    distances = [open_explainer(run.folder, str(name))[0].row(3).distance for name in (run.file, other)]
    assert distances[0] == distances[1]


def test_the_learned_distance_of_a_row_is_what_the_library_says(run):
    explainer, data, _ = open_explainer(run.folder)
    explanation = explainer.row(11)
    others = explainer.logged.neighbor_distances(jnp.array([11]), data.action_space.encode(data.actions[[11]]))[0]
    assert explanation.distance == pytest.approx(float(np.sort(others)[1]), rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either a --row of the log or a file"),
        (["--row", "1", "--observation", "x.npy"], "either a --row of the log or a file"),
        (["--row", "100000"], "is not in the log"),
        (["--row", "1", "--count", "0"], "--count must be at least 1"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(run, capsys, arguments, message):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["explain", str(run.folder), *arguments])
    assert leaving.value.code == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error


def test_a_run_is_not_explained_with_another_dataset(run, tmp_path, capsys):
    datasets.save(log(seed=1), tmp_path / "other.npz")
    with pytest.raises(SystemExit):
        cli.main(["explain", str(run.folder), "--row", "1", "--dataset", str(tmp_path / "other.npz")])
    assert "learned from another dataset than unnamed; name that one" in capsys.readouterr().err
