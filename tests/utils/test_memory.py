import subprocess
import sys

import numpy as np

from ploff.utils.memory import free_memory, in_bytes


def test_a_limit_of_the_process_counts():
    assert free_memory() > 10**7
    code = (
        "import resource\nfrom ploff.utils.memory import free_memory\n"
        "resource.setrlimit(resource.RLIMIT_AS, (5 * 10**8, 5 * 10**8))\nassert free_memory() < 5 * 10**8\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_sizes_are_said_as_people_say_them():
    assert [in_bytes(size) for size in (12, 1_500, 2e6, np.float64(3e9), 4e13)] == [
        "12 bytes", "1.5 kB", "2.0 MB", "3.0 GB", "40.0 TB",
    ]  # fmt: skip
