import dataclasses

import pytest

from ploff.cli import main
from ploff.commands.gridworld import Gridworld


def test_the_command_writes_the_picture(tmp_path, capsys):
    main(["gridworld", "--out", str(tmp_path / "new"), "--steps", "200"])
    said = capsys.readouterr().err
    assert "gridworld.png" in said.replace("\n", "")
    assert "rarest action logged 20 or more times" in said
    assert said.count("worst: row") == 3
    assert (tmp_path / "new" / "gridworld.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit) as leaving:
        main(["gridworld", "--out", str(tmp_path), "--discount", "1.5"])
    assert leaving.value.code == 2
    assert capsys.readouterr().err == "ploff: error: discount must lie in [0, 1), got 1.5\n"


def test_the_default_is_a_horizon_and_a_length_at_which_the_picture_is_right():
    given = {field.name: field.default for field in dataclasses.fields(Gridworld)}
    assert (given["discount"], given["steps"], given["log"]) == (0.99, 40_000, "q-learning")
