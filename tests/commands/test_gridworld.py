import pytest

from ploff.cli import main


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
