"""Ctrl-C and its like, as a wish that loops read between two steps.

Python raises a KeyboardInterrupt wherever it is, in a library's callback too, which may swallow it or be left half
done. Here the signal only notes what is wished; `check`, which every long loop calls, raises it where state is whole. A
second signal ends the process at once: files are written whole or not at all, so nothing breaks.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

# A lost terminal and a process manager ask for the same as Ctrl-C.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SHOW_CURSOR = b"\x1b[?25h"  # that live bars have hidden

_handling = False
_asked: int | None = None  # the signal that came
_raised = False


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """Notes signals to stop while the block runs; a block inside of another, or on another thread, changes nothing.

    A signal that this process was told to ignore (by `nohup`, or as a shell's background job) stays ignored.
    """
    global _handling, _asked, _raised
    if _handling or threading.current_thread() is not threading.main_thread():
        yield
        return
    _handling, _asked, _raised = True, None, False
    before = {number: signal.getsignal(number) for number in SIGNALS}
    install()
    try:
        yield
    finally:
        _handling = False
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def install() -> None:
    """Takes the signals' handlers, again where a library has put its own in their place."""
    if not _handling or threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _ask)


def check() -> None:
    """Raises the KeyboardInterrupt that was asked for, once."""
    global _raised
    if _asked is not None and not _raised:
        _raised = True
        raise KeyboardInterrupt


def exit_code() -> int:
    """What an interrupted process ends with: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    return 128 + (signal.SIGINT if _asked is None else _asked)


def _ask(number: int, _: object) -> None:
    global _asked
    if _asked is not None:
        _tell(SHOW_CURSOR if _has_terminal() else b"", b"ploff: ended at once\n")
        os._exit(128 + number)
    _asked = number
    _tell(b"ploff: stopping; Ctrl-C again ends at once\n")


def _tell(*parts: bytes) -> None:
    """Writes to standard error as a handler may: unbuffered, and whether or not anybody is there to read."""
    with contextlib.suppress(OSError):
        os.write(2, b"".join(parts))


def _has_terminal() -> bool:
    return sys.stderr is not None and os.isatty(2)
