import dataclasses
import math
import pathlib

import pytest

from ploff import cli, datasets
from ploff.agents import METHODS
from ploff.benchmark import estimate, run, search, tables
from ploff.benchmark.paper import paper_scores
from ploff.benchmark.plan import make_plan
from ploff.benchmark.sources import source_of
from ploff.benchmark.store import Store
from ploff.benchmark.suite import family_of, parse_suite, read_suite
from ploff.benchmark.work import stage_folder
from ploff.datasets.catalogue import PAPER_DATASETS
from ploff.errors import PloffError

SUITES = sorted((pathlib.Path(__file__).parent.parent / "reproduce").glob("*.toml"))


def small_suite(**changes):
    content = {
        "name": "small",
        "tasks": ["sample"],
        "seeds": 2,
        "steps": 100,
        "evaluate_every": 50,
        "episodes": 1,
        "metric_steps": 500,
        "methods": {"bc": {}, "ploff": {}, "ploff-l2": {}},
    }
    return parse_suite({**content, **changes})


def scoring(score_of, store):
    """Does jobs at once: each run scores what `score_of` says of its arguments."""
    done = []

    def run_jobs(jobs):
        for job in jobs:
            if not store.is_done(job.key):
                done.append(job)
                score = score_of(job.arguments) if job.kind == "run" else 0.0
                failed = score is None
                store.append(
                    {
                        "key": job.key,
                        "kind": job.kind,
                        "label": job.label,
                        "arguments": job.arguments,
                        "status": "failed" if failed else "done",
                        "reason": "no" if failed else "",
                        "seconds": 7.0,
                        "processor_seconds": 1.0,
                        "result": {"score": score},
                    }
                )

    return run_jobs, done


def test_a_plan_has_every_task_method_and_seed_and_shares_stages():
    plan = make_plan(small_suite(tasks=["sample", "hopper-medium"], neighbour_parts=3))
    assert len(plan.runs) == 2 * 3 * 2
    assert plan.kinds == {"data": 2, "metric": 2, "neighbours": 4, "part": 12, "table": 4, "run": 12}
    position = {job.key: place for place, job in enumerate(plan.jobs)}
    for job in plan.jobs:
        assert all(position[need] < position[job.key] for need in job.needs)


def test_columns_that_are_alike_share_their_runs_and_others_do_not():
    alike = make_plan(small_suite(methods={"bc": {}, "cloning": {"method": "bc"}}))
    assert len(alike.runs) == 4
    assert alike.kinds["run"] == 2
    metrics = {"ploff": {}, "other": {"method": "ploff", "metric": {"discount": 0.5}}}
    assert make_plan(small_suite(methods=metrics)).kinds["metric"] == 2


def test_settings_of_a_family_hold_there_only():
    method = {"settings": {"actor_weight": 5.0}, "families": {"hand": {"actor_weight": 10.0}}}
    suite = small_suite(tasks=["hopper-medium", "pen-human", "sample"], methods={"ploff": method})
    weights = {run.task: run.job.arguments["settings"]["actor_weight"] for run in make_plan(suite).runs}
    assert weights == {"hopper-medium": 5.0, "pen-human": 10.0, "sample": 5.0}
    assert [family_of(task) for task in suite.tasks] == ["locomotion", "hand", "other"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": 5}, "unknown key of suite 'step'; did you mean"),
        ({"methods": {"plof": {}}}, "unknown method 'plof'; did you mean 'ploff'"),
        ({"methods": {"ploff": {"setings": {}}}}, "unknown key of method 'ploff' 'setings'"),
        ({"methods": {"ploff": {"settings": {"beta": 1.0}}}}, "unknown setting of ploff 'beta'"),
        ({"methods": {}}, "needs tasks, methods, seeds"),
        ({"preset": "slow"}, "unknown preset 'slow'"),
        ({"search": {"columns": ["cql"], "space": {"a": [1]}}}, "unknown method of the suite 'cql'"),
        ({"search": {"columns": ["bc"], "space": {"a": [1]}, "kind": "guess"}}, "unknown kind of search"),
        ({"search": {"columns": ["bc"], "space": {}}}, "needs a space"),
    ],
)
def test_what_is_wrong_with_a_suite_is_said_in_one_line(changes, message):
    with pytest.raises(PloffError, match=message) as error:
        small_suite(**changes)
    assert "\n" not in str(error.value)


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "bad.toml").write_text("tasks = [")
    with pytest.raises(PloffError, match=r"bad\.toml is not valid TOML"):
        read_suite(tmp_path / "bad.toml")
    with pytest.raises(PloffError, match=r"no file '.*bat\.toml'; did you mean '.*bad\.toml'\?"):
        read_suite(tmp_path / "bat.toml")


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_the_published_suites_can_be_planned(path, tmp_path):
    suite = read_suite(path)
    assert suite.name == path.stem
    assert parse_suite(run.to_json(suite)) == suite
    lines = run.describe(suite, tmp_path, slots=2)
    assert any(line.startswith("estimate:") for line in lines)


def test_the_suite_of_table_1_plans_the_papers_24_datasets_and_says_what_it_would_download(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PLOFF_DATA", str(tmp_path))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    suite = read_suite(next(path for path in SUITES if path.stem == "table1"))
    assert set(suite.tasks) == set(PAPER_DATASETS)
    assert len(suite.tasks) == 24
    assert len(suite.seeds) == 10
    text = "\n".join(run.describe(suite, tmp_path, slots=2))
    assert "pen-human: to be downloaded from Minari: D4RL/pen/human-v2 (D4RL pen-human, Minari" in text
    assert "hopper-medium: not here: put D4RL's hopper-medium (.hdf5) into this folder" in text
    assert text.count("to be downloaded from Minari") == 12
    assert text.count("not here: put D4RL's") == 12


def test_data_that_is_here_is_not_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("PLOFF_DATA", str(tmp_path))
    (tmp_path / "pen_human-v0.hdf5").touch()
    assert source_of("pen-human").status == "here"
    assert source_of("sample").status == "bundled"
    assert source_of("minari:mujoco/hopper/medium-v0").load == "mujoco/hopper/medium-v0"


def test_what_would_be_downloaded_is_what_load_would_download(tmp_path, monkeypatch):
    monkeypatch.setenv("PLOFF_DATA", str(tmp_path))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert source_of("hopper-medium-v2").status == "missing"  # a file of D4RL's, whatever its version
    assert source_of("pen-human-v1").load == "D4RL/pen/human-v2"
    assert source_of("foo-v0").status == "missing"  # no namespace: not a name of Minari's
    assert source_of("mujoco/hopper/medium-v0").status == "download"
    with pytest.raises(PloffError, match="hopper-medium-v2 is not here: put D4RL's hopper-medium-v2"):
        datasets.load("hopper-medium-v2")
    with pytest.raises(PloffError, match="unknown dataset 'foo-v0'"):
        datasets.load("foo-v0")


def test_two_files_of_one_name_do_not_share_folders(tmp_path):
    places = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.npz").touch()
        places.append(stage_folder(tmp_path, str(tmp_path / folder / "log.npz"), "l2"))
    assert places[0] != places[1]
    assert all(place.parent.name.startswith("log-") for place in places)
    assert stage_folder(tmp_path, "sample", "l2") == tmp_path / "stages" / "sample" / "l2"


def test_one_run_a_task_has_no_interval_and_versions_do_not_hide_the_papers_scores():
    results = tables.Results(
        {"ploff": {"hopper-medium-v2": [30.0]}, "bc": {"hopper-medium-v2": [20.0, 21.0]}},
        (),
        ("hopper-medium-v2",),
        {"ploff": "PLOff"},
    )
    summary = {row[0]: row[2] for row in tables.summary_table(results).rows}
    assert summary["ploff"] == "30.0"
    assert "[" in summary["bc"]
    assert tables.improvement_table(results).rows[0][2] == "1.00"
    assert tables.score_table(results).rows[0][2] == str(paper_scores()["hopper-medium", "PLOff"])


def test_every_method_has_an_estimate():
    assert set(METHODS) <= set(estimate.PER_THOUSAND_STEPS)


def test_the_command_says_what_it_would_do_and_what_is_wrong_in_one_line(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text('tasks = ["sample"]\nseeds = 2\n[methods.bc]\n')
    cli.main(["benchmark", str(tmp_path / "mine.toml"), "--dry-run", "--out", str(tmp_path / "out")])
    shown = capsys.readouterr().out
    assert "suite mine" in shown
    assert "jobs: 1 data, 2 run" in shown
    assert not (tmp_path / "out").exists()
    (tmp_path / "bad.toml").write_text('tasks = ["sample"]\n[methods.cb]\n')
    for arguments in (
        ["absent.toml"],
        ["bad.toml"],
        ["mine.toml", "--workers", "0"],
        ["mine.toml", "--workers", "1", "--ray", "auto"],
    ):
        with pytest.raises(SystemExit) as leaving:
            cli.main(
                ["benchmark", str(tmp_path / arguments[0]), *arguments[1:], "--out", str(tmp_path / "out")]
            )
        assert leaving.value.code == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_an_estimate_rests_on_what_like_jobs_took(tmp_path):
    suite, store = small_suite(methods={"bc": {}}, seeds=3), Store(tmp_path)
    jobs = make_plan(suite).jobs
    before = estimate.seconds(jobs, store)
    run_jobs, _ = scoring(lambda _: 1.0, store)
    run_jobs([job for job in jobs if job.arguments.get("seed", 0) == 0])
    assert estimate.seconds(jobs, store) == pytest.approx(2.0)
    assert before != pytest.approx(2.0)
    assert estimate.wall_seconds(jobs, store, 8) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["grid", "halving"])
def test_a_search_finds_the_best_settings_of_each_family_on_seeds_of_its_own(kind, tmp_path):
    space = {"actor_weight": [1.0, 5.0, 10.0], "sharpness": [0.1, 0.25, 0.5]}
    given = {"columns": ["ploff"], "space": space, "kind": kind, "seeds": 2}
    if kind == "halving":
        pytest.importorskip("optuna")
        given["first_steps"] = 100
    suite = small_suite(
        tasks=["hopper-medium", "pen-human"], methods={"ploff": {}, "bc": {}}, steps=900, search=given
    )
    best = {"hopper-medium": (5.0, 0.25), "pen-human": (10.0, 0.5)}

    def score(arguments):
        weight, sharpness = best[arguments["task"]]
        found = arguments["settings"]
        return 100 - abs(found["actor_weight"] - weight) - abs(found["sharpness"] - sharpness)

    store = Store(tmp_path)
    run_jobs, done = scoring(score, store)
    chosen, choices = search.with_chosen_settings(suite, run_jobs, store)
    assert chosen.column("ploff").families == {
        "locomotion": {"actor_weight": 5.0, "sharpness": 0.25},
        "hand": {"actor_weight": 10.0, "sharpness": 0.5},
    }
    assert [choice.score for choice in choices] == [100, 100]
    runs = [job for job in done if job.kind == "run"]
    assert {job.arguments["seed"] for job in runs}.isdisjoint(suite.seeds)
    whole = [job for job in runs if job.arguments["training"]["steps"] == 900]
    assert len(whole) == 2 * 9 * 2 if kind == "grid" else len(whole) < 2 * 9 * 2 / 2
    again, rerun = scoring(score, store)
    assert search.with_chosen_settings(suite, again, store)[0] == chosen
    assert rerun == []


def test_halving_compares_at_steps_that_grow_by_its_factor():
    given = {"columns": ["ploff"], "space": {"sharpness": [1.0]}, "kind": "halving", "first_steps": 100}
    assert search.rungs(small_suite(steps=1000, search=given)) == [100, 300, 900, 1000]
    assert search.rungs(small_suite(steps=900, search=given)) == [100, 300, 900]
    assert search.rungs(small_suite(steps=50, search=given)) == [50]
    with pytest.raises(PloffError, match="multiple of evaluate_every"):
        search.rungs(small_suite(steps=900, search={**given, "first_steps": 120}))


def test_a_candidate_of_which_a_run_failed_is_not_chosen(tmp_path):
    given = {"columns": ["ploff"], "space": {"sharpness": [1.0, 2.0]}, "seeds": 1}
    store = Store(tmp_path)
    run_jobs, _ = scoring(
        lambda arguments: None if arguments["settings"]["sharpness"] == 1.0 else -5.0, store
    )
    _, choices = search.with_chosen_settings(small_suite(search=given), run_jobs, store)
    assert choices[0].settings == {"sharpness": 2.0}
    assert choices[0].scores[0][1] == -math.inf
    all_fail, _ = scoring(lambda _: None, store)
    with pytest.raises(PloffError, match="no candidate of ploff ran to its end"):
        search.with_chosen_settings(
            small_suite(search={**given, "space": {"sharpness": [3.0]}}), all_fail, store
        )


@pytest.fixture
def results():
    scores = {
        "ploff": {"hopper-medium": [80.0, 90.0], "pen-human": [50.0, 70.0]},
        "bc": {"hopper-medium": [30.0], "pen-human": []},
    }
    runs = [
        (task, column, seed, score)
        for column, tasks in scores.items()
        for task, values in tasks.items()
        for seed, score in enumerate(values)
    ]
    return tables.Results(scores, tuple(runs), ("hopper-medium", "pen-human"), {"ploff": "PLOff"})


def test_the_papers_column_stands_beside_ours(results):
    table = tables.score_table(results)
    assert table.header == ("task", "ploff", "PLOff (paper)", "bc")
    assert table.rows == (
        ("hopper-medium", "85.0 ± 7.1", "87.0 ± 18.2", "30.0"),
        ("pen-human", "60.0 ± 14.1", "69.6 ± 22.0", "–"),
    )


def test_family_means_of_the_papers_scores_are_those_that_it_prints():
    printed = {"PLOff": (48.0, 45.0), "PLOff-L2": (47.0, 43.2), "CQL": (52.3, 40.3)}
    for method, expected in printed.items():
        empty = tables.Results(
            {"x": {task: [] for task in PAPER_DATASETS}}, (), PAPER_DATASETS, {"x": method}
        )
        rows = [row for row in tables.score_table(empty).rows if row[0].startswith("mean")]
        means = [float(row[2].split(" ± ")[0]) for row in rows]
        assert means == pytest.approx(expected, abs=0.16)  # it averages before it rounds
    assert len(paper_scores()) == 24 * 9


def test_tables_are_written_as_markdown_csv_and_latex(results, tmp_path):
    paths = tables.write_tables(results, tmp_path)
    texts = {path.name: path.read_text() for path in paths}
    assert "| hopper-medium | 85.0 ± 7.1 | 87.0 ± 18.2 | 30.0 |" in texts["tables.md"]
    assert "Probability of improvement" in texts["tables.md"]
    assert texts["table.csv"].splitlines()[1] == "hopper-medium,85.0 ± 7.1,87.0 ± 18.2,30.0"
    assert r"hopper-medium & 85.0 $\pm$ 7.1 & 87.0 $\pm$ 18.2 & 30.0 \\" in texts["table.tex"]
    assert texts["scores.csv"].splitlines()[:2] == ["task,method,seed,score", "hopper-medium,ploff,0,80.0"]


def test_what_is_not_run_yet_leaves_the_tables_readable():
    empty = tables.Results({"bc": {"sample": []}}, (), ("sample",), {})
    assert tables.score_table(empty).rows == (("sample", "–"),)
    assert tables.summary_table(empty).rows == ()
    assert tables.improvement_table(empty).rows == ()


def test_every_key_of_a_suite_changes_its_plan():
    base = small_suite(search=None)
    changes = {
        "tasks": ("hopper-medium",), "seeds": (7,), "preset": "paper", "steps": 200, "evaluate_every": 25,
        "episodes": 3, "metric_steps": 1_000, "metric": {"discount": 0.5}, "neighbour_parts": 2,
        "columns": base.columns[:1],
    }  # fmt: skip
    told = {"name", "about", "search"}  # of these, the last is tested above
    assert set(changes) == {field.name for field in dataclasses.fields(base)} - told
    keys = {job.key for job in make_plan(base).jobs}
    for name, value in changes.items():
        changed = dataclasses.replace(base, **{name: value})
        assert {job.key for job in make_plan(changed).jobs} != keys, name
