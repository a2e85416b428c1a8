"""The process that trains one seed on one core: `python -m ploff.pipeline.worker`, started by `ploff.pipeline.pool`.

The job comes pickled on standard input, behind its length; what there is to say goes to standard output, a line of JSON
each. Standard input stays open: when it closes, whoever wanted the result is gone, and the process ends.
"""

import json
import os
import pickle
import sys
import threading
import traceback
import warnings
from typing import Any

from ploff.cores import keep_to_one_core


def main() -> None:
    """Reads a job and trains it."""
    size = int.from_bytes(sys.stdin.buffer.read(8), "little")
    packed = sys.stdin.buffer.read(size)
    keep_to_one_core()  # before JAX counts them and starts its threads
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    say = _speaker()

    from ploff.errors import PloffError, PloffWarning

    def show(message: Any, category: Any, *place: Any, **_: Any) -> None:
        if issubclass(category, PloffWarning):
            say(kind="warning", text=str(message))
        else:
            sys.stderr.write(f"{message}\n")

    warnings.simplefilter("always", PloffWarning)
    warnings.showwarning = show
    try:
        from ploff.pipeline.agent import train_seed

        job = pickle.loads(packed)
        train_seed(job, quiet=True, report=lambda step, row: say(kind="row", step=step, row=row))
        say(kind="done")
    except KeyboardInterrupt as interrupt:
        say(kind="interrupted", text=str(interrupt))
    except PloffError as error:
        say(kind="failed", text=str(error), mendable=True)
    except BaseException as error:
        say(kind="failed", text=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


def _speaker():
    """A function that writes a message; anything else that is printed goes to standard error."""
    private = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(**message: Any) -> None:
        with lock:
            private.write(json.dumps(message) + "\n")

    return say


def _end_with_the_parent() -> None:
    while os.read(0, 1024):  # not through sys.stdin, whose lock would be held when the interpreter ends
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
