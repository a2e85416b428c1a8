"""Loads a file of a million transitions: time against h5py, bytes held against bytes of data, peak of memory.

    python benchmarks/loading.py [FILE.hdf5] [--rounds 5]

Without a file, one of HalfCheetah's shapes is made. Every round measures all sides; the least of each counts.
"""

import argparse
import pathlib
import tempfile
import time
import tracemalloc

import h5py
import numpy as np

import ploff.datasets

MADE = 1_000_000
DATA = ("observations", "actions", "rewards", "terminals", "timeouts")
READ = (*DATA, "next_observations")  # what the loader reads: successors are checked against the rows


def make_file(path: pathlib.Path, count: int = MADE, width: int = 17, actions: int = 6, horizon: int = 1000) -> None:
    """Writes smooth random walks, so that compression has as much to do as with a robot's."""
    random = np.random.default_rng(0)
    walk = random.standard_normal((count // horizon, horizon + 1, width), np.float32).cumsum(axis=1) * 0.05
    rows = {
        "observations": walk[:, :-1].reshape(count, width),
        "next_observations": walk[:, 1:].reshape(count, width),
        "actions": np.tanh(random.standard_normal((count, actions), np.float32)),
        "rewards": random.standard_normal(count, np.float32),
        "terminals": np.zeros(count, bool),
        "timeouts": np.arange(1, count + 1) % horizon == 0,
    }
    with h5py.File(path, "w") as file:
        for name, values in rows.items():
            file.create_dataset(name, data=values, compression="gzip", compression_opts=1)


def seconds(work) -> tuple[float, float]:
    """Times the work by the clock, and by all processors together, which hardly minds what else the machine does."""
    start, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - used


def read_with_h5py(path: pathlib.Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: np.asarray(file[name]) for name in names if name in file}


def peak_of_loading(path: pathlib.Path) -> int:
    """Measures the bytes that loading has in use at its highest, of arrays and Python objects."""
    tracemalloc.start()
    ploff.datasets.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def report(path: pathlib.Path, rounds: int) -> None:
    times = {"h5py, data": [], "h5py, data and successors": [], "ploff": []}
    for _ in range(rounds):
        times["h5py, data"].append(seconds(lambda: read_with_h5py(path, DATA)))
        times["h5py, data and successors"].append(seconds(lambda: read_with_h5py(path, READ)))
        times["ploff"].append(seconds(lambda: ploff.datasets.load(path)))
    best = {name: np.min(values, axis=0) for name, values in times.items()}
    transitions = ploff.datasets.load(path)
    data = sum(values.nbytes for values in read_with_h5py(path, DATA).values())
    peak = peak_of_loading(path)
    print(f"{path.name}: {len(transitions):,} transitions, {data / 1e6:.1f} MB of data, least of {rounds} rounds")
    for name, (clock, processors) in best.items():
        print(f"  {name:<26} {clock:.3f} s, {processors:.3f} s of processors")
    for side in ("h5py, data", "h5py, data and successors"):
        clock, processors = best["ploff"] / best[side]
        print(f"  {'ploff / ' + side:<40} {clock:.2f} by the clock, {processors:.2f} by processors")
    print(f"  bytes held / bytes of data               {transitions.nbytes() / data:.3f}")
    print(f"  peak of memory / bytes of data           {peak / data:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.file:
        return report(arguments.file, arguments.rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "halfcheetah-made.hdf5"
        make_file(path)
        report(path, arguments.rounds)


if __name__ == "__main__":
    main()
