"""Results as tables, beside the paper's."""

import pytest

from ploff.datasets.catalog import PAPER_DATASETS
from ploff.experiments import tables
from ploff.experiments.paper import paper_scores


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
    evaluations = ({"task": "hopper-medium", "method": "bc", "seed": 0, "step": 5, "score": 30.0},)
    return tables.Results(scores, tuple(runs), ("hopper-medium", "pen-human"), {"ploff": "PLOff"}, evaluations)


def test_the_papers_column_stands_beside_ours(results):
    table = tables.score_table(results)
    assert table.header == ("task", "ploff", "PLOff (paper)", "bc")
    assert table.rows == (
        ("hopper-medium", "85.0 ± 7.1", "87.0 ± 18.2", "30.0"),
        ("pen-human", "60.0 ± 14.1", "69.6 ± 22.0", "–"),
    )


def test_one_run_per_task_has_no_interval_and_versions_do_not_hide_the_papers_scores():
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


def test_family_means_of_the_papers_scores_are_those_that_it_prints():
    printed = {"PLOff": (48.0, 45.0), "PLOff-L2": (47.0, 43.2), "CQL": (52.3, 40.3)}
    for method, expected in printed.items():
        empty = tables.Results({"x": {task: [] for task in PAPER_DATASETS}}, (), PAPER_DATASETS, {"x": method})
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
    evaluations = (tmp_path / "evaluations.csv").read_text().splitlines()
    assert evaluations == ["task,method,seed,step,score", "hopper-medium,bc,0,5,30.0"]


def test_what_is_not_run_yet_leaves_the_tables_readable(tmp_path):
    empty = tables.Results({"bc": {"sample": []}}, (), ("sample",), {})
    assert tables.score_table(empty).rows == (("sample", "–"),)
    assert tables.summary_table(empty).rows == ()
    assert tables.improvement_table(empty).rows == ()
    assert tables.write_tables(empty, tmp_path) == []


def test_names_are_shown_as_they_are_and_run_nothing():
    table = tables.Table("t", ("task", "<script>alert(1)</script>"), (("a|b\nc", "1 & 2"),))
    shown = table.markdown()
    assert "<" not in shown
    assert shown.splitlines()[0] == "| task | &lt;script&gt;alert(1)&lt;/script&gt; |"
    assert shown.splitlines()[2] == "| a\\|b c | 1 &amp; 2 |"
