"""`ploff judge` and `ploff select`, from a table to a verdict: the tutorial's commands."""

import json
import re
import shlex
import types

import pytest

from ploff import cli, load_run
from test_documentation import BLOCKS, DOCS

TINY = "--set hidden_sizes=8,8 batch_size=16"


def command(line, capsys):
    try:
        cli.main(shlex.split(line.removeprefix("ploff ")))
        code = 0
    except SystemExit as leaving:
        code = leaving.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("tutorial")


def test_the_tutorials_commands_lead_from_a_table_to_a_verdict(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    page = (DOCS / "tutorials" / "judge-a-policy.md").read_text()
    exec(BLOCKS.findall(page)[0], {})
    shell = "\n".join(re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)).replace("\\\n", " ")
    lines = [line for line in shell.splitlines() if line.startswith("ploff ")]
    assert [line.split()[1] for line in lines] == ["data", "train", "judge"]
    for line in lines:
        code, shown, said = command(f"{line} {TINY}" if "train" in line else line, capsys)
        assert code in ((0, 3, 4) if "judge" in line else (0,)), said
    assert "the log" in shown
    assert "outside of the evidence" in shown
    (seed,) = place.glob("run/runs/*/*/seed-0")
    chosen = json.loads((seed / "selection.json").read_text())
    assert chosen["step"] in (150, 300)
    assert [row["step"] for row in chosen["judged"]] == [150, 300]
    assert load_run(place / "run").seeds[0].selected == chosen["step"]
    assert json.loads((seed / "judgment.json").read_text())["kept_from_training"]


def test_json_is_for_programs_and_select_copies_the_choice(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    code, shown, _ = command("ploff judge run --json", capsys)
    (told,) = json.loads(shown)
    assert code == {"better": 0, "not better": 3, "cannot be told": 4}[told["verdict"]]
    code, shown, _ = command("ploff select run --out chosen", capsys)
    assert code == 0
    assert (place / "chosen" / "policy.eqx").exists()


def test_what_cannot_be_judged_is_one_line_and_nothing_is_written(place, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(place)
    cases = types.SimpleNamespace(
        none="ploff judge", nowhere=f"ploff judge {tmp_path}", trials="ploff select run --trials 3"
    )
    for line in vars(cases).values():
        code, _, said = command(line, capsys)
        assert code == 2, line
        assert said.splitlines()[-1].startswith("ploff: error: ")
    (policy,) = place.glob("run/runs/*/*/seed-0/policy.eqx")
    (tmp_path / "policy.eqx").write_bytes(policy.read_bytes())
    code, _, said = command(f"ploff judge {tmp_path / 'policy.eqx'}", capsys)
    assert (code, "add --dataset NAME" in said) == (2, True)
    code, _, said = command(f"ploff judge {tmp_path / 'policy.eqx'} --dataset sample", capsys)
    assert code == 2
    assert "is for observations of shape (2,) and 1 action(s)" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.eqx"]
