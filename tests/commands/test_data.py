import re
import subprocess
import sys

import numpy as np
import pytest

from data_cases import (
    LAYOUTS,
    assert_same_arrays,
    make_rows,
    needs_shared_data,
    read_hdf5,
    shared_files,
    write_hdf5,
)
from ploff import cli, datasets


@pytest.fixture(autouse=True)
def _no_other_data(tmp_path, monkeypatch):
    monkeypatch.delenv("PLOFF_DATA", raising=False)
    monkeypatch.delenv("PLOFF_TRACEBACK", raising=False)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def source(tmp_path):
    return write_hdf5(tmp_path / "hopper_medium-v2.hdf5", make_rows("hopper", **LAYOUTS["hopper_medium-v2"]))


def run(capsys, *arguments):
    """Exit code, output and errors of a command."""
    try:
        cli.main(["data", *map(str, arguments)])
        code = 0
    except SystemExit as leave:
        code = leave.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def card(text):
    """A card's lines by label."""
    lines = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in text.splitlines()[1:]]
    return {line[0]: line[-1] for line in lines}


def number(text):
    return int(re.match(r"[\d,]+", text).group().replace(",", ""))


def test_show_counts_what_the_file_holds(source, capsys):
    code, output, errors = run(capsys, "show", source)
    shown = card(output)
    assert (code, errors) == (0, "")
    assert output.startswith("hopper_medium-v2\n")
    assert [number(shown[k]) for k in ("transitions", "states", "episodes", "terminals", "timeouts")] == [
        260,
        264,
        4,
        2,
        1,
    ]
    assert shown["episodes"] == "4, the last cut without a mark"
    assert shown["unknown successors"] == "0"
    assert shown["environment"] == "hopper (d4rl)"
    assert shown["episode lengths"].startswith("30 … 101, median 64, mean 65")
    returns = datasets.load(source).episode_returns()
    assert shown["normalized score"].startswith(f"{100 * (returns.mean() + 20.272305) / (3234.3 + 20.272305):.1f} (")
    assert "3 float32 in [-1, 1]" in shown["actions"]


@needs_shared_data
@pytest.mark.parametrize("path", shared_files(), ids=lambda path: path.stem)
def test_show_reads_real_files(path, capsys):
    code, output, errors = run(capsys, "show", path)
    rows, shown = read_hdf5(path), card(output)
    terminals, timeouts = rows["terminals"].astype(bool), rows["timeouts"].astype(bool)
    assert (code, errors) == (0, "")
    assert number(shown["transitions"]) == len(rows["rewards"])
    assert number(shown["terminals"]) == terminals.sum()
    assert number(shown["timeouts"]) == timeouts.sum()
    assert number(shown["episodes"]) == (terminals | timeouts).sum()  # all of them end with a mark
    assert number(shown["unknown successors"]) == (0 if "next_observations" in rows else (terminals | timeouts).sum())


def test_show_puts_warnings_on_the_card(tmp_path, capsys):
    path = write_hdf5(tmp_path / "robot.hdf5", make_rows("robot") | {"rewards": np.zeros(260)})
    code, output, errors = run(capsys, "show", path)
    assert (code, errors) == (0, "")
    warnings = [line for line in output.splitlines() if line.startswith("warning")]
    assert len(warnings) == 2
    assert "every reward is 0" in warnings[0]
    assert "taking the actions' bounds from the data" in warnings[1]
    _, output, _ = run(capsys, "show", path, "--action-low", -1, "--action-high", 1, "--environment", "pen")
    assert card(output)["environment"].startswith("pen")
    assert output.count("\nwarning") == 1


def test_show_reads_a_table_by_named_columns(tmp_path, capsys):
    (tmp_path / "plant.csv").write_text("t,p,valve,profit,run\n20,1.5,1,0.5,a\n21,1.4,0,0.7,a\n19,1.2,1,0.1,b\n")
    code, output, _ = run(
        capsys,
        *("show", "plant.csv", "--choices", 2, "--columns"),
        *("observations=t,p", "actions=valve", "--columns", "rewards=profit", "episodes=run"),
    )
    assert code == 0
    assert card(output)["episodes"] == "2"
    assert card(output)["actions"] == "one of 2 choices, taken 33%, 67%"
    code, _, errors = run(capsys, "show", "plant.csv", "--columns", "t,p")
    assert (code, errors) == (2, "ploff: error: --columns takes FIELD=NAME,NAME…, got 't,p'\n")


def test_list_shows_what_is_here_and_the_papers_24(source, capsys):
    datasets.convert(source, "minari:mine/hopper-v0")
    code, output, errors = run(capsys, "list")
    assert (code, errors) == (0, "")
    rows = [line.split() for line in output.splitlines()[1:]]
    assert rows[0][:2] == ["sample", "bundled"]
    assert ["hopper_medium-v2", "d4rl", "hopper_medium-v2.hdf5"] in rows
    assert any(row[:2] == ["mine/hopper-v0", "minari"] for row in rows)
    absent = [row for row in rows if row[2:4] == ["not", "here"] or row[2:4] == ["not", "here;"]]
    assert len(absent) == 23
    assert "D4RL/relocate/cloned-v2" in output


def test_convert_goes_round(source, capsys):
    for start, end in (
        (source, "minari:round/hopper-v0"),
        ("round/hopper-v0", "hopper.npz"),
        ("hopper.npz", "again.hdf5"),
    ):
        code, output, errors = run(capsys, "convert", start, end)
        assert (code, errors) == (0, "")
        assert output.startswith("wrote ")
    assert_same_arrays(read_hdf5("again.hdf5"), read_hdf5(source))


def test_convert_to_a_folder_needs_its_format_named(source, tmp_path, capsys):
    code, _, errors = run(capsys, "convert", source, "out-v0")
    assert code == 2
    assert "cannot tell a format from 'out-v0'" in errors
    assert run(capsys, "convert", source, "out-v0", "--format", "minari")[0] == 0
    assert run(capsys, "show", "out-v0")[0] == 0


def test_convert_overwrites_only_by_force(source, capsys):
    assert run(capsys, "convert", source, "a.npz")[0] == 0
    code, _, errors = run(capsys, "convert", source, "a.npz")
    assert (code, errors) == (
        2,
        "ploff: error: a.npz exists already; --force (or overwrite=True) replaces it\n",
    )
    assert run(capsys, "convert", source, "a.npz", "--force")[0] == 0


def test_convert_shows_warnings_in_one_line(tmp_path, capsys):
    write_hdf5(tmp_path / "robot.hdf5", make_rows("robot"))
    code, output, errors = run(capsys, "convert", "robot.hdf5", "robot.npz")
    assert (code, output) == (0, "wrote robot.npz\n")
    assert re.fullmatch(r"ploff: warning: robot\.hdf5: taking the actions' bounds .* for sure\n", errors)


def broken_files(tmp_path):
    rows = make_rows("hopper", successors=True)
    nan = rows["rewards"].copy()
    nan[5] = np.nan
    none = np.zeros(260, bool)
    write_hdf5(tmp_path / "nan.hdf5", rows | {"rewards": nan})
    write_hdf5(tmp_path / "short.hdf5", rows | {"actions": rows["actions"][:-1]})
    write_hdf5(tmp_path / "hopper-wide.hdf5", rows | {"actions": 3 * rows["actions"]})
    write_hdf5(tmp_path / "endless.hdf5", rows | {"terminals": none, "timeouts": none})
    write_hdf5(tmp_path / "partial.hdf5", {"observations": rows["observations"]})
    (tmp_path / "empty.hdf5").touch()
    (tmp_path / "page.hdf5").write_text("<html>")
    (tmp_path / "cut.hdf5").write_bytes((tmp_path / "nan.hdf5").read_bytes()[:5000])
    (tmp_path / "folder").mkdir()
    write_hdf5(tmp_path / "hopper.npz", rows)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nan.hdf5", "nan.hdf5: rewards holds 1 NaN or infinite value, first nan in row 5"),
        ("short.hdf5", "short.hdf5: actions has 259 rows but rewards has 260"),
        ("hopper-wide.hdf5", "outside [-1, 1]"),
        ("endless.hdf5", "endless.hdf5: no row is marked terminal or timeout"),
        ("partial.hdf5", "partial.hdf5 lacks actions, rewards, terminals; it holds observations"),
        ("empty.hdf5", "empty.hdf5 is empty (0 bytes)"),
        ("page.hdf5", "page.hdf5 is not an HDF5 file"),
        ("cut.hdf5", "cut.hdf5 is truncated: 5,000 of"),
        ("folder", "folder is a folder where a file is expected"),
        ("hopper.npz", "hopper.npz is named .npz but holds d4rl data"),
        ("missing.hdf5", "no file 'missing.hdf5'"),
        ("hopper-mediun", "unknown dataset 'hopper-mediun'; did you mean 'hopper-medium'"),
        ("relocate-human", "or load 'D4RL/relocate/human-v2' from Minari"),
    ],
)
@pytest.mark.parametrize("command", ["show", "convert"])
def test_bad_input_is_one_line_and_exit_code_2(name, message, command, tmp_path, capsys):
    broken_files(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    extra = ["out.npz"] if command == "convert" else []
    code, output, errors = run(capsys, command, name, *extra)
    assert (code, output) == (2, "")
    assert errors.startswith("ploff: error: ")
    assert errors.count("\n") == 1
    assert message in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_traceback_comes_only_when_asked_for(tmp_path):
    (tmp_path / "empty.hdf5").touch()
    with pytest.raises(datasets.DataError, match="is empty"):
        cli.main(["data", "show", "empty.hdf5", "--traceback"])


def test_collect_writes_a_log_that_show_reads(capsys):
    arguments = ("collect", "CartPole-v1", "--transitions", 120, "--seed", 3, "--out")
    code, output, _ = run(capsys, *arguments, "pole.npz")
    assert (code, output) == (0, "wrote pole.npz\n")
    assert run(capsys, *arguments, "pole.npz")[0] == 2
    run(capsys, *arguments, "again.npz")
    with np.load("pole.npz") as first, np.load("again.npz") as second:
        for name in first.files:
            np.testing.assert_array_equal(first[name], second[name])
    code, output, _ = run(capsys, "show", "pole.npz")
    shown = card(output)
    assert shown["transitions"] == "120"
    assert shown["environment"].startswith("CartPole-v1")
    assert shown["actions"].startswith("one of 2 choices")


def test_collect_refuses_an_unknown_environment(tmp_path, capsys):
    code, _, errors = run(capsys, "collect", "Hoper-v5", "--out", "a.npz")
    assert code == 2
    assert errors.startswith("ploff: error: unknown environment 'Hoper-v5'")
    assert list(tmp_path.iterdir()) == []


def test_a_command_without_a_dataset_asks_for_one(capsys):
    code, _, errors = run(capsys, "show")
    assert (code, errors.count("\n")) == (2, 1)
    assert "no dataset is named; give a file" in errors


@pytest.mark.parametrize("target", ["a.hdf5", "b-v0", "c.npz", "d.csv", "e.parquet"])
def test_a_full_disk_is_one_line_and_leaves_nothing(target, tmp_path):
    """Of a process of its own: the HDF5 library used to take it along."""
    target = tmp_path / target
    code = (
        "import resource, sys\nfrom ploff.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\nmain(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "data", "convert", "sample", str(target)]
    ended = subprocess.run([*command, *["--format", "minari"] * (not target.suffix)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert f"{target} cannot be written: " in ended.stderr
    assert list(tmp_path.iterdir()) == []
