"""How much memory is left, as far as the system tells: what does not fit is refused before it is read."""

import contextlib
import os
import pathlib

CGROUPS = (  # of a container: its limit, and what it uses
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_memory() -> int:
    """Bytes that this process can still take: the least of what machine, container and user's limits leave."""
    free = [_free_on_the_machine()]
    for limit, used in CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
            free.append(int(pathlib.Path(limit).read_text()) - int(pathlib.Path(used).read_text()))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
            free.append(limit - pages * os.sysconf("SC_PAGE_SIZE"))
    return max(min(free), 0)


def in_bytes(count: float) -> str:
    """A size as people say it."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} bytes"


def _free_on_the_machine() -> int:
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 62  # a system that does not say
