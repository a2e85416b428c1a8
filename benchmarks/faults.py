"""A campaign of faults, from a seed: damaged files, broken structures, flipped bits in run folders, signals, kills.

    python benchmarks/faults.py --bytes 8400 --structure --folders 25 --signals 40 --kills 60 --out faults.csv

Every case ends in one of these, and the table counts them:

    refused     one line that names the file: a PloffError, or exit code 2
    same        what was read, or what came of it, is bit for bit what it is without the fault
    changed     other values were read, and nothing was said: a format without checksums cannot tell
    internal    anything else was raised: a fault of ploff's
    crashed     the process died
    hung        it did not end within a minute

Files are loaded in processes of their own, so that one that dies costs one case.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import connection
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import fault_structures

SECONDS = 60
FORMATS = ("a.hdf5", "plain.hdf5", "walk-v0", "a.npz", "a.parquet", "a.csv")
BAD = ("internal", "crashed", "hung")
STEPS = {"ploff": "500", "bc": "60000"}
TINY = ["hidden_sizes=8,8", "batch_size=16"]
Case = tuple[str, str, Callable[[pathlib.Path], None]]  # format, fault, what does it to a copy of the sound file


def main() -> None:
    """Runs what is asked for, prints a table, and ends with 1 where anything is ploff's fault."""
    parser = argparse.ArgumentParser(description="A campaign of faults, from a seed.")
    parser.add_argument("--seed", type=int, default=0)
    for name in ("bytes", "folders", "signals", "kills"):
        parser.add_argument(f"--{name}", type=int, default=0, help="how many; of folders: bits per file")
    parser.add_argument("--structure", action="store_true", help="every field broken in every way")
    parser.add_argument("--out", help="a CSV file for the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        outcomes = campaign(options, pathlib.Path(place))
    lines = ["part,format,fault,outcome,count", *(",".join([*key, str(n)]) for key, n in sorted(outcomes.items()))]
    if options.out:
        pathlib.Path(options.out).write_text("\n".join(lines) + "\n")
    print("\n".join(summary(outcomes)))
    raise SystemExit(any(key[3] in BAD for key in outcomes))


def campaign(options: argparse.Namespace, place: pathlib.Path) -> collections.Counter:
    """The outcomes' counts by part, format, fault and outcome."""
    draw, outcomes = random.Random(options.seed), collections.Counter()
    sound = make_sound_files(place / "sound")
    if options.bytes:
        outcomes.update(("bytes", *found) for found in try_files(sound, byte_cases(draw, sound, options.bytes), place))
    if options.structure:
        outcomes.update(("structure", *found) for found in try_files(sound, fault_structures.cases(), place))
    if options.folders:
        outcomes.update(("folder", *found) for found in try_folder(draw, options.folders, place))
    if options.signals:
        outcomes.update(("signal", "train", *found) for found in try_signals(draw, options.signals, place))
    if options.kills:
        outcomes.update(("kill", "train", *found) for found in try_kills(draw, options.kills, place))
    return outcomes


def summary(outcomes: collections.Counter) -> list[str]:
    """Counts by part and format, one line each."""
    rows: dict[tuple[str, str], collections.Counter] = {}
    for (part, format, _, outcome), count in outcomes.items():
        rows.setdefault((part, format), collections.Counter())[outcome] += count
    return [
        f"{part:10} {format:18} {sum(found.values()):6,}  "
        + ", ".join(f"{n:,} {name}" for name, n in sorted(found.items()))
        for (part, format), found in sorted(rows.items())
    ]


# Files.


def make_sound_files(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """One small log in every format; the plain HDF5 file has no chunks, no filters and no notes of ploff's."""
    import h5py
    import numpy as np

    from ploff import datasets

    data = datasets.load("sample").select_episodes([0])
    data = data._from_rows_of(np.arange(120))
    data.timeouts.flags.writeable = True
    data.timeouts[[39, 79, 119]] = True
    files = {}
    for name in FORMATS:
        files[name] = folder / name
        format = "minari" if not files[name].suffix else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            datasets.save(data, files[name], format=format)
    with h5py.File(files["a.hdf5"]) as source, h5py.File(files["plain.hdf5"], "w") as target:
        for name in ("observations", "actions", "rewards", "terminals", "timeouts"):
            target[name] = source[name][()]
    return files


def byte_cases(draw: random.Random, sound: dict[str, pathlib.Path], count: int) -> Iterator[Case]:
    """Flipped, cut and inserted bytes, at places and of lengths that are drawn."""
    for number in range(count):
        name = FORMATS[number % len(FORMATS)]
        files = [path for path in sorted(sound[name].rglob("*")) if path.is_file()] or [sound[name]]
        inside = draw.choice(files).relative_to(sound[name])
        fault = draw.choice(("flip", "cut", "insert", "zeros"))
        yield name, fault, _byte_fault(fault, inside, draw.random(), draw.randrange(1 << 30))


def _byte_fault(fault: str, inside: pathlib.Path, share: float, number: int) -> Callable[[pathlib.Path], None]:
    def damage(copy: pathlib.Path) -> None:
        path = copy / inside if copy.is_dir() else copy
        content = bytearray(path.read_bytes())
        place = int(share * len(content))
        if fault == "flip":
            content[place] ^= 1 << number % 8
        elif fault == "cut":
            del content[place:]
        elif fault == "insert":
            content[place:place] = random.Random(number).randbytes(1 + number % 64)
        else:
            content[place : place + 1 + number % 64] = bytes(len(content[place : place + 1 + number % 64]))
        path.write_bytes(content)

    return damage


def try_files(
    sound: dict[str, pathlib.Path], cases: Iterator[Case], place: pathlib.Path
) -> Iterator[tuple[str, str, str]]:
    """Loads a copy of the sound file for each case, in a process that may die."""
    ask = worker = None
    for name, fault, damage in cases:
        copy = copy_of(sound[name], place / "case" / name)
        damage(copy)
        if worker is None:
            ask, there = multiprocessing.get_context("spawn").Pipe()
            worker = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
            worker.start()
            there.close()
        outcome = _ask(ask, worker, copy, sound[name])
        if outcome in ("crashed", "hung"):
            worker.kill()
            worker = None
        if outcome in BAD:
            print(f"{outcome}: {name}, {fault}", file=sys.stderr)
        yield name, fault, outcome
    if worker is not None:
        worker.kill()


def copy_of(sound: pathlib.Path, place: pathlib.Path) -> pathlib.Path:
    """A fresh copy of a file or a folder, to be damaged."""
    shutil.rmtree(place.parent, ignore_errors=True)
    place.parent.mkdir(parents=True)
    (shutil.copytree if sound.is_dir() else shutil.copyfile)(sound, place)
    return place


def _ask(ask: Any, worker: Any, copy: pathlib.Path, sound: pathlib.Path) -> str:
    ask.send((str(copy), str(sound)))
    ready = connection.wait([ask, worker.sentinel], SECONDS)
    if not ready:
        return "hung"
    try:
        return ask.recv()
    except (EOFError, ConnectionResetError):
        return "crashed"


def serve(pipe: Any) -> None:
    """Loads what it is asked to, and says what came of it."""
    warnings.simplefilter("ignore")
    known: dict[str, str] = {}
    while True:
        copy, sound = pipe.recv()
        if sound not in known:
            known[sound] = _fingerprint(sound)
        pipe.send(load_outcome(copy, known[sound]))


def load_outcome(path: str, fingerprint: str) -> str:
    """What loading a file comes to."""
    from ploff.utils.errors import PloffError

    try:
        return "same" if _fingerprint(path) == fingerprint else "changed"
    except (PloffError, FileNotFoundError) as error:
        if "\n" not in str(error) and pathlib.Path(path).name in str(error):
            return "refused"
        print("not one line that names the file:", repr(str(error)), file=sys.stderr)
        return "internal"
    except Exception as error:
        print(type(error).__name__, error, file=sys.stderr)
        return "internal"


def _fingerprint(path: str) -> str:
    from ploff import datasets

    return datasets.load(path, infos=True).fingerprint()


# Run folders.


def try_folder(draw: random.Random, bits: int, place: pathlib.Path) -> Iterator[tuple[str, str, str]]:
    """Flips bits in every file of a run, and uses all that is in it."""
    out = place / "run"
    _train(out, "ploff", "--metric-steps", "500", "--set", "metric.hidden_sizes=16", "metric.embedding_size=4", *TINY)
    wanted = use(out)
    for path in sorted(path for path in out.rglob("*") if path.is_file() and path.stat().st_size):
        content = path.read_bytes()
        for _ in range(bits):
            position, bit = draw.randrange(len(content)), 1 << draw.randrange(8)
            path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
            yield path.name, "flip", _use_outcome(out, wanted)
            path.write_bytes(content)


def use(out: pathlib.Path) -> dict[str, Any]:
    """What a run's files come to: actions, distances, rows, results."""
    import numpy as np

    import ploff
    from ploff.experiments.explain_run import open_explainer
    from ploff.experiments.run_folder import find_metric
    from ploff.experiments.run_suite import load_results
    from ploff.metric.train import load_metric
    from ploff.report.gather import gather

    run, (suite, _, store) = ploff.load_run(out), load_results(out)
    explainer, data = open_explainer(out)
    learned = load_metric(find_metric(out))
    states = np.asarray(data.observations[:8])
    shown = gather([out])
    return {
        "actions": np.asarray(run.policy()(states)).tobytes(),
        "distances": learned.state_distances(states).tobytes(),
        "rows": [item.row for item in explainer.row(3).evidence],
        "history": [result.history for result in run.seeds],
        "config": json.dumps([run.config, str(suite), [str(group.config) for group in shown.groups]]),
        "results": json.dumps({key: record for key, record in store.records.items() if store.is_done(key)}),
    }


def _use_outcome(out: pathlib.Path, wanted: dict[str, Any]) -> str:
    from ploff.utils.errors import PloffError

    try:
        with warnings.catch_warnings(record=True):
            found = use(out)
    except PloffError as error:
        return "refused" if "\n" not in str(error) else "internal"
    except Exception as error:
        print(type(error).__name__, error, file=sys.stderr)
        return "internal"
    if found == wanted:
        return "same"
    # A line of the results that is damaged counts for nothing: its job is done again.
    known, kept = json.loads(wanted["results"]), json.loads(found["results"])
    return "refused" if all(known.get(key) == record for key, record in kept.items()) else "changed"


# Processes.


def _command(out: pathlib.Path, method: str, *more: str) -> list[str]:
    length = ["--steps", STEPS[method], "--environment", "none", "--out", str(out)]
    log = str(out.parent / "sound" / "a.npz")
    return [sys.executable, "-m", "ploff", "train", log, "--method", method, *length, *more]


def _train(out: pathlib.Path, method: str = "bc", *more: str) -> subprocess.CompletedProcess:
    more = more or ("--set", *TINY)
    return subprocess.run(_command(out, method, *more), capture_output=True, text=True, check=True)


def _arrays(out: pathlib.Path) -> bytes:
    (checkpoint,) = out.glob("runs/*/*/seed-0/checkpoint.eqx")
    return checkpoint.read_bytes().split(b"\n", 2)[2]


def _start(out: pathlib.Path, seconds: float) -> tuple[subprocess.Popen, float]:
    """A run that has gone on for so long; signals are not ignored in it, as a shell's background job would."""

    def listen() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    process = subprocess.Popen(
        _command(out, "bc", "--set", *TINY), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=listen,
    )  # fmt: skip
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return process, time.monotonic()


def _whole(place: pathlib.Path) -> tuple[bytes, float]:
    """A run that nothing interrupts: its arrays, and the seconds that it takes."""
    out, began = place / "whole", time.monotonic()
    if not out.exists():
        _train(out)
        _train(place / "timed")
        began += (time.monotonic() - began) / 2
    return _arrays(out), time.monotonic() - began


def try_signals(draw: random.Random, count: int, place: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Signals to stop, at moments that are drawn: the process says so and ends by that signal's code, or was done."""
    _, lasts = _whole(place)
    for number in range(count):
        name = ("SIGINT", "SIGTERM", "SIGHUP")[number % 3]
        out = place / f"signal-{number}"
        process, _ = _start(out, draw.uniform(0.1, lasts))
        over = process.poll() is not None
        process.send_signal(getattr(signal, name))
        try:
            _, said = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            yield name, "hung"
            continue
        stopped = process.returncode == 128 + getattr(signal, name) and "interrupted" in said
        if "Traceback" in said or "Exception ignored" in said or not (stopped or over):
            print(name, process.returncode, said, file=sys.stderr)
            yield name, "internal"
        else:
            yield name, "same" if over else "refused"


def try_kills(draw: random.Random, count: int, place: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Runs killed again and again, then finished: the end is that of a run that nothing interrupted."""
    wanted, lasts = _whole(place)
    for first in range(0, count, KILLS_PER_RUN):
        out, kills = place / f"kill-{first}", min(KILLS_PER_RUN, count - first)
        for _ in range(kills):
            process, _ = _start(out, draw.uniform(0.1, lasts))
            process.kill()
            process.communicate()
        ended = subprocess.run(_command(out, "bc", "--set", *TINY), capture_output=True, text=True)
        left = list(out.rglob(".*.partial-*"))
        sound = ended.returncode == 0 and _arrays(out) == wanted and not left
        yield from [("SIGKILL", "same" if sound else "internal")] * kills


KILLS_PER_RUN = 3

if __name__ == "__main__":
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(pathlib.Path(tempfile.gettempdir()) / "ploff-faults"))
    main()
