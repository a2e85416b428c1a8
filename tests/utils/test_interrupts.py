"""Ctrl-C, SIGTERM and SIGHUP: whenever they come, and however often."""

import os
import signal
import subprocess
import sys

import pytest

from ploff.utils import interrupts

NUMBERS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_signal_is_noted_and_raised_where_a_loop_looks(name, capfd):
    reached, number = [], getattr(signal, name)

    def work():
        with interrupts.handled():
            os.kill(os.getpid(), number)
            reached.append("no library is cut off")
            interrupts.check()

    before = signal.signal(number, signal.SIG_DFL)  # as in a terminal, wherever this test runs
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert reached
        assert interrupts.exit_code() == NUMBERS[name]
        assert "Ctrl-C again ends at once" in capfd.readouterr().err
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_it_is_raised_once_so_that_saving_is_not_cut_off():
    with interrupts.handled():
        interrupts._ask(signal.SIGINT, None)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()
    with interrupts.handled():
        interrupts.check()  # what was asked of one command is not asked of the next


def test_a_second_one_ends_at_once_without_a_word_of_python():
    code = (
        "import os, signal\nfrom ploff.utils import interrupts\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with interrupts.handled():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    os.kill(os.getpid(), signal.SIGINT)\n    print('went on')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "ploff: stopping; Ctrl-C again ends at once\nploff: ended at once\n"


def test_what_is_to_be_ignored_stays_ignored():
    code = (
        "import os, signal\nfrom ploff.utils import interrupts\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with interrupts.handled():\n    os.kill(os.getpid(), signal.SIGHUP)\n    interrupts.check()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
