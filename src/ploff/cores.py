"""The cores that this process may use: a container or `taskset` may leave it fewer than the machine has."""

import os
import pathlib
import tempfile

PLACES = 8  # processes that a core takes, one more only where every other has as many


def available_cores() -> list[int]:
    """Their numbers."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def keep_to_one_core() -> None:
    """Keeps this process to a core that no other such process has, or as few as any.

    To be called before any library has counted the cores. Sums are then added in one order, whatever the machine:
    results do not depend on how many cores it has.
    """
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {_free_core()})


def _free_core() -> int:
    import fcntl  # wherever there is affinity

    cores, folder = available_cores(), pathlib.Path(tempfile.gettempdir())
    for place in range(PLACES):
        for core in cores:
            path = folder / f"ploff-{os.getuid()}-core-{core}-{place}.lock"
            lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process ends
            except OSError:  # taken, or there are no locks in that folder
                os.close(lock)
                continue
            return core
    return cores[os.getpid() % len(cores)]
