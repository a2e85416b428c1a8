"""Runs a suite on local workers and on a Ray cluster of three nodes on this machine: equal tables, or an error.

    python benchmarks/cluster.py reproduce/quick.toml --out FOLDER

FOLDER gets `local` and `ray`, as `ploff benchmark` makes them; what is there already is not run again. Prints the
minutes that each took and the share of both cores that was busy meanwhile.
"""

import argparse
import os
import pathlib
import time
from collections.abc import Callable

from ploff.experiments.run_suite import run_suite
from ploff.experiments.suite import read_suite

NODES = 3
TABLES = ("scores.csv", "table.csv", "table.tex", "tables.md")


def start_cluster():
    """Starts three nodes with a processor each: one more than this machine may have."""
    # Ray's own politeness (niceness 15) would starve its workers wherever anything else is running.
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(NODES - 1):
        cluster.add_node(**node)
    return cluster


def busy_seconds() -> tuple[float, float]:
    """Reads the seconds that all cores were busy, and all seconds, since this machine was started."""
    fields = [int(x) for x in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    ticks = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - idle) / ticks, sum(fields) / ticks


def timed(name: str, work: Callable[[], object]) -> None:
    """Does the work and prints what it took."""
    began, before = time.monotonic(), busy_seconds()
    work()
    after = busy_seconds()
    share = (after[0] - before[0]) / max(after[1] - before[1], 1e-9)
    minutes = (time.monotonic() - began) / 60
    print(f"{name}: {minutes:.1f} minutes, {os.cpu_count()} cores {share:.0%} busy", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    suite, local, remote = read_suite(options.suite), options.out / "local", options.out / "ray"
    timed("local workers", lambda: run_suite(suite, local))
    cluster = start_cluster()
    try:
        timed(f"Ray, {NODES} nodes", lambda: run_suite(suite, remote, ray=cluster.address))
    finally:
        cluster.shutdown()
    for name in TABLES:
        if (local / name).read_text() != (remote / name).read_text():
            raise SystemExit(f"{name} differs between {local} and {remote}")
    print((local / "tables.md").read_text())
    print(f"equal: {', '.join(TABLES)}")


if __name__ == "__main__":
    main()
