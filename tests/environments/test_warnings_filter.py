import subprocess
import sys

import pytest

pytest.importorskip("mujoco")


def test_nothing_is_printed_or_written_while_environments_are_made(tmp_path):
    program = "from ploff import environments as e; [e.make(n, p) for n in e.names() for p in ('d4rl', 'gymnasium')]"
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []
