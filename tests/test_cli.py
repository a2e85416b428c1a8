"""The command: what it answers at once, and what it says of a mistake."""

import importlib.metadata
import os
import re
import subprocess
import sys

import pytest

from ploff import agents, cli


def run(capsys, *arguments):
    try:
        cli.main(list(arguments))
        code = 0
    except SystemExit as leaving:
        code = leaving.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_version_is_the_packages(capsys):
    assert run(capsys, "--version") == (0, f"ploff {importlib.metadata.version('ploff')}\n", "")


def test_help_names_every_command_and_comes_by_itself(capsys):
    for arguments in ((), ("--help",)):
        code, shown, _ = run(capsys, *arguments)
        assert code == 0
        for name in cli.COMMANDS:
            assert name in shown


def test_a_misspelled_command_is_named_with_the_nearest(capsys):
    code, _, said = run(capsys, "trian", "sample")
    assert code == 2
    assert said.startswith("ploff: error: unknown command 'trian'; did you mean 'train'")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_speaks_to_its_user_in_80_columns(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, shown, _ = run(capsys, name, "--help")
    assert code == 0
    assert max(len(line) for line in shown.splitlines() if not line.startswith("usage:")) <= 80
    assert "ploff." not in shown, "help speaks of commands, not of the code"


def test_methods_are_listed_with_their_papers_and_needs(capsys):
    code, shown, _ = run(capsys, "methods")
    assert code == 0
    for method in agents.METHODS.values():
        assert method.name in shown
    assert "Fujimoto and Gu, 2021" in shown


def test_a_methods_settings_are_listed_with_defaults_and_meaning(capsys):
    code, shown, _ = run(capsys, "methods", "td3-bc")
    assert code == 0
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert re.search(r"alpha\s+2\.5\s+α", lines["alpha"])
    assert re.search(r"hidden_sizes\s+256,256", lines["hidden_sizes"])
    assert "rate of the target networks" in lines["tau"]
    code, _, said = run(capsys, "methods", "td3bc")
    assert code == 2
    assert "did you mean 'td3-bc'" in said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_of_few_letters_is_written_to(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    code = "import sys; sys.argv[0] = 'ploff'; from ploff.cli import main; main(['methods', 'ploff'])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert b"setting" in ended.stdout
