"""Where runs, policies and metrics are found."""

import pytest

import ploff
from experiment_cases import BRIEF, TINY, planned_suite, swings
from ploff import PloffError
from ploff.experiments.plan import make_plan
from ploff.experiments.run_folder import find_metric, find_run_folders, metric_folder, run_folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    return ploff.train(swings(), "bc", out=out, settings=TINY, **BRIEF | {"steps": 10}), out


def test_a_run_and_its_policy_are_found_from_any_of_its_folders(whole):
    run, out = whole
    for place in (out, run.folder):
        assert ploff.load_run(place).seeds == run.seeds
    for place in (out, out / "runs", run.folder, run.folder / "seed-0", run.folder / "seed-0" / "policy.eqx"):
        assert ploff.load_policy(place).observation_shape == (3,)


def test_a_policy_that_is_not_there_is_said_so(whole, tmp_path):
    run, out = whole
    with pytest.raises(PloffError, match="no run folder"):
        ploff.load_policy(tmp_path / "nowhere")
    with pytest.raises(PloffError, match="no policy in"):
        ploff.load_policy(tmp_path)
    with pytest.raises(PloffError, match="no run in"):
        ploff.load_run(tmp_path)
    with pytest.raises(PloffError, match="has no seed 7; it has 0"):
        ploff.load_policy(out, seed=7)
    with pytest.raises(PloffError, match="observations of shape"):
        run.policy()(swings().observations[:2, :1])
    with pytest.raises(PloffError, match="no learned metric in"):
        find_metric(out)


def test_two_files_of_one_name_do_not_share_folders(tmp_path):
    places = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.npz").touch()
        places.append(metric_folder(tmp_path, str(tmp_path / folder / "log.npz"), "l2"))
    assert places[0] != places[1]
    assert all(place.name.startswith("log-") for place in places)
    assert metric_folder(tmp_path, "sample", "l2") == tmp_path / "metrics" / "sample-l2"


def test_a_run_of_more_steps_is_the_same_run_and_one_of_other_settings_is_not(tmp_path):
    def folder(**changes):
        (first, *_) = make_plan(planned_suite(methods={"bc": changes.pop("method", {})}, **changes)).runs
        return run_folder(tmp_path, first.job.arguments)

    assert folder(steps=100) == folder(steps=200) == folder(logger="wandb")
    assert folder() != folder(evaluate_every=25)
    assert folder() != folder(method={"settings": {"batch_size": 7}})


def test_folders_without_a_suite_are_searched(whole, tmp_path):
    run, out = whole
    assert find_run_folders(out / "runs") == [run.folder]
    assert find_run_folders(tmp_path) == []
