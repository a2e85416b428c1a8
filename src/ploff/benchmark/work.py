"""What a worker does with a job: fetch data, learn a metric, search for neighbours, train and try a policy.

Under the suite's folder:

    stages/TASK/METRIC/   a metric with its neighbours, shared by the runs that need it
    runs/TASK/METHOD-…/   run folders, as `ploff train` makes them, a folder a seed inside

Everything there is made so that it can be cut off at any moment and gone on with: a job that is run again finds what an
earlier attempt left.
"""

import functools
import hashlib
import json
import pathlib
import pickle
import re
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

from ploff import datasets, environments, neighbors, pipeline, storage
from ploff.benchmark.jobs import Job
from ploff.benchmark.sources import short_name, source_of
from ploff.errors import PloffError
from ploff.metric_training import CHECKPOINT, MetricTraining, config_from_json, learn_metric
from ploff.neighbors.exhaustive import Exhaustive
from ploff.neighbors.search import SearchConfig, build_index
from ploff.pipeline import stages
from ploff.pipeline.arena import find_arena
from ploff.transitions import Transitions

BATCH = 16_384


def perform(job: Job, folder: pathlib.Path) -> dict[str, Any]:
    """Does a job and returns what is to be stored of it."""
    return _WORK[job.kind](job.arguments, folder)


def stage_folder(folder: pathlib.Path, task: str, evidence: str) -> pathlib.Path:
    """Where a metric and its neighbours are; `evidence` is the metric's key, or "l2"."""
    return folder / "stages" / _file_name(task) / evidence


def run_folder(folder: pathlib.Path, arguments: dict[str, Any]) -> pathlib.Path:
    """Where a run is. A run of more steps and otherwise alike is the same one, gone on with."""
    identity = {name: value for name, value in arguments.items() if name not in ("task", "seed", "training")}
    identity["training"] = {name: value for name, value in arguments["training"].items() if name != "steps"}
    digest = hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=4).hexdigest()
    return folder / "runs" / _file_name(arguments["task"]) / f"{arguments['method']}-{digest}"


def _data(arguments: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """Fetches the data, and makes sure that policies can be tried where it comes from."""
    task = arguments["task"]
    data = datasets.load(source_of(task).load)
    origin = data.origin
    if origin.environment is None or origin.reference_scores is None:
        raise PloffError(
            f"{origin.name} does not say in which environment policies are tried, or which returns score 0 and 100"
        )
    find_arena(data, origin.environment, None, quiet=True)
    noted = {"fingerprint": data.fingerprint(), "environment": origin.environment}
    storage.write_json(_noted(folder, task), noted)
    mean_return = float(data.episode_returns().mean())
    return {
        "transitions": len(data),
        "episodes": len(data.episode_lengths()),
        "environment": origin.environment,
        "physics": origin.physics,
        "mean_return": mean_return,
        "score": float(environments.normalised_score(mean_return, origin.reference_scores)),
    }


def _metric(arguments: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    key = Job(kind="metric", arguments=arguments).key
    learned = learn_metric(
        _load(arguments["task"], folder),
        config_from_json(arguments["settings"]),
        MetricTraining(**arguments["training"]),
        out=stage_folder(folder, arguments["task"], key),
        quiet=True,
    )
    last = learned.history[-1]
    return {
        "steps": last["step"],
        "bound": learned.bound,
        "largest_distance": max(row["largest_distance"] for row in learned.history),
        "check": learned.checks[-1] if learned.checks else {},
    }


def _neighbours(arguments: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """Prepares the search: all of it where it is quick, else the index that its parts share."""
    place = stage_folder(folder, arguments["task"], arguments["evidence"])
    metric, seen, source, path = _evidence(arguments, folder)
    if path.exists():
        return {"divided": False}
    states = np.asarray(neighbors.embed_logged_states(metric, seen.to_device()), np.float32)
    config = SearchConfig()
    index = build_index(states[: len(seen)], states, config)
    if isinstance(index, Exhaustive):
        neighbors.build_table(path, states, len(seen), source, config, index=index, quiet=True)
        return {"divided": False}
    with storage.replacing(place / "search" / "states.npy") as partial:
        np.save(partial, states)
    with storage.replacing(place / "search" / "index.pickle") as partial, open(partial, "wb") as file:
        pickle.dump(index, file, protocol=pickle.HIGHEST_PROTOCOL)
    return {"divided": True, "probes": index.probes}


def _part(arguments: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """Searches for the neighbours of one part of the states."""
    place = stage_folder(folder, arguments["task"], arguments["evidence"]) / "search"
    target = place / f"part-{arguments['part']}-of-{arguments['parts']}.npy"
    if not (place / "index.pickle").exists() or target.exists():
        return {}
    with open(place / "index.pickle", "rb") as file:
        index = pickle.load(file)
    states = np.load(place / "states.npy", mmap_mode="r")
    first, last = _bounds(len(states), arguments["part"], arguments["parts"])
    k = min(SearchConfig().neighbours, len(index.points))
    found = [index.query(states[start : min(start + BATCH, last)], k) for start in range(first, last, BATCH)]
    with storage.replacing(target) as partial:
        np.save(partial, np.concatenate(found) if found else np.zeros((0, k), np.int32))
    return {"states": last - first}


def _table(arguments: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """Puts the parts together, measures their recall, and writes the table."""
    _, seen, source, path = _evidence(arguments, folder)
    place = path.parent / "search"
    if not path.exists():
        with open(place / "index.pickle", "rb") as file:
            index = pickle.load(file)
        names = [f"part-{part}-of-{arguments['parts']}.npy" for part in range(arguments["parts"])]
        found = np.concatenate([np.load(place / name) for name in names])
        states = np.load(place / "states.npy", mmap_mode="r")
        neighbors.build_table(path, states, len(seen), source, index=index, found=found, quiet=True)
    shutil.rmtree(place, ignore_errors=True)
    report = neighbors.load_table(path, source).report
    return {"recall": report.recall, "method": report.method, "sampled": report.sampled}


def _run(arguments: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    place, task, seed = run_folder(folder, arguments), arguments["task"], arguments["seed"]
    noted = storage.read_json(_noted(folder, task)) if _noted(folder, task).exists() else {}
    evidence = stage_folder(folder, task, arguments["evidence"])
    if not all(path.exists() for path in _needed(evidence)):
        raise PloffError(
            f"{evidence} is gone, on which this run builds; put it back, or begin anew with another --out"
        )
    run = pipeline.train(
        source_of(task).load,
        arguments["method"],
        out=place,
        seeds=[seed],
        settings=storage.as_settings(arguments["settings"]),
        metric=evidence,
        environment=noted.get("environment"),
        fingerprint=noted.get("fingerprint"),
        quiet=True,
        **arguments["training"],
    )
    result = next(each for each in run.seeds if each.seed == seed)
    names = ("step", "score", "mean_return")
    return {
        "score": result.score,
        "evaluations": [{name: row[name] for name in names} for row in result.evaluations],
        "folder": str(place.relative_to(folder)),
    }


@functools.lru_cache(maxsize=1)
def _load(task: str, folder: pathlib.Path) -> Transitions:
    """A task's data, which must be what the suite's other results were made from."""
    data, noted = datasets.load(source_of(task).load), _noted(folder, task)
    if noted.exists() and storage.read_json(noted)["fingerprint"] != data.fingerprint():
        raise PloffError(
            f"the data of {task} is not what it was when this suite began; choose another --out for what it is now"
        )
    return data


def _noted(folder: pathlib.Path, task: str) -> pathlib.Path:
    """Where a task's data is noted, to be known again."""
    return folder / "stages" / _file_name(task) / "data.json"


def _needed(place: pathlib.Path) -> list[pathlib.Path]:
    """What a run finds in the folder of its metric."""
    if place.name in ("none", "l2"):
        return [place / stages.L2_TABLE] if place.name == "l2" else []
    return [place / CHECKPOINT, place / stages.TABLE]


def _evidence(arguments: dict[str, Any], folder: pathlib.Path) -> Any:
    kind = "l2" if arguments["evidence"] == "l2" else "learned"
    place = stage_folder(folder, arguments["task"], arguments["evidence"])
    return stages.parts(kind, place, _load(arguments["task"], folder))


def _bounds(count: int, part: int, parts: int) -> tuple[int, int]:
    return count * part // parts, count * (part + 1) // parts


def _file_name(task: str) -> str:
    """A task's name as a folder's; a file's by its name, and a digest of its place: others may be called the same."""
    readable = re.sub(r"[^\w.+-]+", "-", short_name(task))
    if short_name(task) == task:
        return readable
    return f"{readable}-{hashlib.blake2b(task.encode(), digest_size=3).hexdigest()}"


_WORK: dict[str, Callable[[dict[str, Any], pathlib.Path], dict[str, Any]]] = {
    "data": _data,
    "metric": _metric,
    "neighbours": _neighbours,
    "part": _part,
    "table": _table,
    "run": _run,
}
