import shlex

import numpy as np
import pytest

from ploff import cli, datasets, load_policy
from ploff.datasets.columns import TableOptions
from ploff.datasets.proposal import propose
from table_cases import EPISODES, ROWS, TABLES, plant, without, write_text


def shown_command(capsys, *arguments):
    """What `ploff data show` says, and the command that it ends with."""
    cli.main(["data", "show", *arguments])
    output = capsys.readouterr().out
    return output, shlex.split(output.strip().splitlines()[-1])


@pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")
@pytest.mark.parametrize(("make", "expected"), TABLES.items(), ids=lambda case: getattr(case, "__name__", ""))
def test_the_printed_command_goes_from_any_table_to_a_policy(make, expected, tmp_path, capsys):
    episodes, components = expected
    output, command = shown_command(capsys, *make(tmp_path))
    assert f"\nepisodes            {episodes} " in output
    out = str(tmp_path / "run")
    assert command[:2] == ["ploff", "train"]
    command[command.index("run")] = out
    cli.main([*command[1:], "--method", "bc", "--steps", "1", "--set", "hidden_sizes=8", "batch_size=8"])
    policy = load_policy(out)
    assert list(policy.schema.components) == components
    assert policy.schema.actions == ("valve",)
    assert np.isfinite(policy(np.zeros((1, len(components))))).all()


def test_what_is_proposed_is_said_column_by_column(tmp_path):
    columns = plant() | {"logged_at": plant()["time"], "site": ["A"] * ROWS, "remark": [f"n{i}" for i in range(ROWS)]}
    columns["pressure"][3] = ""
    write_text(tmp_path / "plant.csv", columns)
    proposed = propose([str(tmp_path / "plant.csv")], {}, TableOptions(), {})
    cards = {card.name: card for card in proposed.cards}
    assert proposed.rows == ROWS
    assert [cards[name].role for name in ("run", "time", "valve", "reward")] == [
        "episodes", "time", "actions", "rewards",
    ]  # fmt: skip
    assert {name: cards[name].note for name in ("logged_at", "site", "remark")} == {
        "logged_at": "a second time column",
        "site": "never changes",
        "remark": "text that hardly repeats",
    }
    assert cards["pressure"].missing == pytest.approx(1 / ROWS)
    assert cards["site"].constant
    assert proposed.reading["missing"] == "hold"
    assert proposed.reading["columns"]["observations"] == ["pressure", "flow"]


def test_what_a_person_says_stands(tmp_path):
    write_text(tmp_path / "plant.csv", plant())
    said = {"actions": ["flow"], "observations": ["pressure"]}
    proposed = propose([str(tmp_path / "plant.csv")], said, TableOptions(reward={"reward": 2.0}), {"horizon": 9})
    assert proposed.reading["columns"]["actions"] == ["flow"]
    assert proposed.reading["columns"]["observations"] == ["pressure"]
    assert proposed.reading["reward"] == {"reward": 2.0}
    assert proposed.reading["horizon"] == 9


def test_what_cannot_be_told_is_asked_for(tmp_path, capsys):
    write_text(tmp_path / "plant.csv", without(plant(), "valve", "reward"))
    output, command = shown_command(capsys, str(tmp_path / "plant.csv"))
    assert "open: which column is the action? put its name for ACTION_COLUMN" in output
    assert "actions=ACTION_COLUMN" in command


@pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")
def test_a_long_proposal_takes_all_columns_but_those_that_it_leaves_out(tmp_path):
    columns = plant() | {f"sensor_{i}": [float(i + j) for j in range(ROWS)] for i in range(9)} | {"site": ["A"] * ROWS}
    write_text(tmp_path / "plant.csv", columns)
    proposed = propose([str(tmp_path / "plant.csv")], {}, TableOptions(), {})
    assert proposed.reading["columns"]["observations"] == ["*"]
    assert proposed.reading["ignore"] == ["site"]
    transitions = datasets.load(tmp_path / "plant.csv", **proposed.reading)
    assert transitions.origin.schema.components == ("pressure", "flow", *(f"sensor_{i}" for i in range(9)))
    assert len(transitions.episode_ends()) == EPISODES


def test_a_proposal_as_a_file_says_the_same(tmp_path, capsys):
    write_text(tmp_path / "plant.csv", plant(), ";", ",")
    names = [str(tmp_path / "plant.csv")]
    file = tmp_path / "columns.toml"
    _, command = shown_command(capsys, *names, "--write", str(file))
    assert command[-2:] == ["--table", str(file)]
    import tomllib

    assert tomllib.loads(file.read_text()) == propose(names, {}, TableOptions(), {}).reading
    cli.main(["data", "show", *names, "--table", str(file), "--columns", "observations=flow"])
    assert "flow      double" in capsys.readouterr().out
