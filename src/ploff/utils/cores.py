"""The cores that this process may use: a container or `taskset` may leave it fewer than the machine has."""

import os
import pathlib
import tempfile

import filelock

PROCESSES_PER_CORE = 8  # a core takes one more only where every other has as many

_held: list[filelock.BaseFileLock] = []  # until this process ends


def available_cores() -> list[int]:
    """The numbers of the cores."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin_to_one_core() -> None:
    """Keeps this process to a core that no other such process has, or as few as any.

    To be called before any library has counted the cores. Sums are then added in one order, whatever the machine:
    results do not depend on how many cores it has.
    """
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {_free_core()})


def _free_core() -> int:
    cores, folder = available_cores(), pathlib.Path(tempfile.gettempdir())
    for place in range(PROCESSES_PER_CORE):
        for core in cores:
            lock = filelock.FileLock(folder / f"ploff-{os.getuid()}-core-{core}-{place}.lock", mode=0o600)
            try:
                lock.acquire(timeout=0)
            except (filelock.Timeout, OSError):  # taken, or there are no locks in that folder
                continue
            _held.append(lock)
            return core
    return cores[os.getpid() % len(cores)]
