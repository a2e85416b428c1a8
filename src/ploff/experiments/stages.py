"""The stages, each a function of its job's arguments: data, relevance, metric, neighbors, agent, evaluation.

A stage is a generator of `Progress` that returns what is to be stored of it. Everything that it writes, it writes so
that it can be cut off at any moment: a job that is run again finds what an earlier attempt left and resumes it.
`ploff.experiments.run_folder` has the places.
"""

import dataclasses
import json
import pathlib
import shutil
import warnings
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from ploff import neighbors
from ploff.environments.eval_env import EvalEnv, find_eval_env
from ploff.environments.evaluation import evaluate
from ploff.environments.registry import refuse_code
from ploff.experiments import agent_run
from ploff.experiments.jobs import Job
from ploff.experiments.logs import (
    TABLE,
    Arguments,
    EmbeddedLog,
    embedded_data,
    load_data,
    load_task,
    seen_data,
)
from ploff.experiments.run_folder import data_note, load_policy, metric_folder, relevance_file, run_folder
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import CHECKPOINT, MetricTraining, coordinates_of, run_identity, train_metric
from ploff.neighbors.inverted_lists import InvertedLists
from ploff.neighbors.knn import SearchConfig, build_index
from ploff.neighbors.table import load_table, search_table
from ploff.relevance import Relevance, RelevanceConfig, find_relevance
from ploff.training.checkpoint import load_array, load_header, save_array
from ploff.transitions import Transitions
from ploff.utils import files
from ploff.utils.config import structure, to_plain
from ploff.utils.errors import PloffError, PloffWarning
from ploff.utils.progress import Progress, say

STATES = "states.rows"
BATCH = 16_384  # states whose neighbors are searched at a time
Work = Generator[Progress, None, dict[str, Any]]


def perform(job: Job, out: pathlib.Path) -> Work:
    """Does a job; returns what is to be stored of it."""
    return STAGES[job.kind](job.arguments, out)


# Data.


def data_stage(arguments: Arguments, out: pathlib.Path) -> Work:
    """Loads the data, notes what it is, and makes sure that policies can be evaluated where it comes from."""
    task = arguments["task"]
    yield Progress(0, 1)
    data = load_task(task, arguments["reading"])
    origin = data.origin
    if arguments["scored"] and (origin.environment is None or origin.reference_scores is None):
        raise PloffError(
            f"{origin.name} does not say in which environment policies are tried, or which returns score 0 and 100"
        )
    if arguments["scored"]:
        refuse_code(origin.name, origin.environment or "", json.loads(origin.options))
        find_eval_env(data, origin.environment, arguments["physics"])
    note = {
        "name": origin.name,
        "fingerprint": data.fingerprint(),
        "transitions": len(data),
        "episodes": len(data.episode_lengths()),
        "mean_return": float(data.episode_returns().mean()),
    }
    files.write_record(data_note(out, task), note)
    return note


# Relevance.


def relevance_stage(arguments: Arguments, out: pathlib.Path) -> Work:
    """Learns what matters in the observations."""
    place = relevance_file(out, arguments["task"], Job(kind="relevance", arguments=arguments).key)
    data = load_data(arguments, out)
    if not place.exists():
        config = structure(RelevanceConfig, arguments["config"], "setting of relevance")
        vectors = len(data.observation_shape) == 1
        found = (yield from find_relevance(data, config)) if vectors else Relevance.of_everything(data)
        found.save(place)
    relevance = Relevance.load(place)
    return {"directions": len(relevance.spectrum), "kept": relevance.kept, "errors": relevance.errors}


# Metric.


def metric_stage(arguments: Arguments, out: pathlib.Path) -> Work:
    """Learns the pseudometric."""
    place = metric_folder(out, arguments["task"], Job(kind="metric", arguments=arguments).key)
    config = structure(MetricConfig, arguments["config"], "metric setting")
    training = structure(MetricTraining, arguments["training"], "metric training")
    data = seen_data(arguments, out)
    with metric_lock(place):
        files.write_record(place / "dataset.json", {name: arguments[name] for name in ("task", "reading")})
        _resume_from_shorter(place, data, config, training)
        learned = yield from train_metric(data, config, training, out=place)
    return {
        "steps": learned.history[-1]["step"],
        "bound": learned.bound,
        "max_distance": max(row["max_distance"] for row in learned.history),
        "check": learned.checks[-1] if learned.checks else {},
    }


def _resume_from_shorter(
    place: pathlib.Path, data: Transitions, config: MetricConfig, training: MetricTraining
) -> None:
    """Takes the checkpoint of a metric that differs in its length alone: every step is the same one there."""
    if (place / CHECKPOINT).exists():
        return
    wanted = {
        "dataset": data.fingerprint(),
        "coordinates": coordinates_of(data),
        "config": to_plain(config),
        "training": to_plain(training),
    }
    for other in place.parent.glob(f"*/{CHECKPOINT}"):
        header = load_header(other)
        if run_identity(header) == run_identity(wanted) and header["step"] <= training.steps:
            with files.atomic_write(place / CHECKPOINT) as partial:
                shutil.copyfile(other, partial)
            return


def metric_lock(place: pathlib.Path):
    """Holds the lock of a metric's folder; waits for another process that works in it."""
    return files.locked(place / ".lock", when_taken=lambda: say(f"waiting for another process that works in {place}"))


# Neighbors.


def neighbors_stage(arguments: Arguments, out: pathlib.Path) -> Work:
    """Prepares the search: all of it where it is quick, else the index that its parts share."""
    log = embedded_data(arguments, out)
    yield Progress(0, log.data.num_states)
    if _is_made(log):
        return {"divided": False}
    states = np.asarray(neighbors.embed_logged_states(log.metric, log.data.to_device()), np.float32)
    index = build_index(states[: len(log.data)], states, SearchConfig())
    with metric_lock(log.table.parent):
        if not isinstance(index, InvertedLists):
            yield from search_table(log.table, states, len(log.data), log.key, index=index)
            return {"divided": False}
        search = log.table.parent / "search"
        save_array(search / STATES, states)
        with files.atomic_write(search / "index.npz") as partial:
            np.savez(partial, homes=index.homes, parts=index.parts, probes=index.probes)
    return {"divided": True, "probes": index.probes}


def neighbors_part_stage(arguments: Arguments, out: pathlib.Path) -> Work:
    """Searches for the neighbors of one part of the states."""
    search = metric_folder(out, arguments["task"], arguments["metric"]) / "search"
    target = search / f"part-{arguments['part']}-of-{arguments['parts']}.rows"
    if not (search / "index.npz").exists() or target.exists():
        return {}
    states, index = _load_search(search)
    count, part, parts = len(states), arguments["part"], arguments["parts"]
    first, last = count * part // parts, count * (part + 1) // parts
    k = min(SearchConfig().num_neighbors, len(index.points))
    found = [np.zeros((0, k), np.int32)]
    for start in range(first, last, BATCH):
        found.append(index.query(states[start : min(start + BATCH, last)], k))
        yield Progress(min(start + BATCH, last) - first, last - first)
    save_array(target, np.concatenate(found))
    return {"states": last - first}


def neighbors_table_stage(arguments: Arguments, out: pathlib.Path) -> Work:
    """Puts the parts together, measures their recall, and writes the table."""
    log = embedded_data(arguments, out)
    search = log.table.parent / "search"
    if not _is_made(log):
        states, index = _load_search(search)
        names = [f"part-{part}-of-{arguments['parts']}.rows" for part in range(arguments["parts"])]
        found = np.concatenate([load_array(search / name) for name in names])
        yield from search_table(log.table, states, len(log.data), log.key, index=index, found=found)
    shutil.rmtree(search, ignore_errors=True)
    report = load_table(log.table, log.key).report
    return {"recall": report.recall, "method": report.method, "sampled": report.sampled}


def _is_made(log: EmbeddedLog) -> bool:
    """Whether the table is there; one of another metric or dataset is removed, nothing else can need it."""
    if not log.table.exists():
        return False
    header = load_header(log.table)
    if all(header.get(name) == wanted for name, wanted in dataclasses.asdict(log.key).items()):
        return True
    log.table.unlink()
    return False


def _load_search(search: pathlib.Path) -> tuple[np.ndarray, InvertedLists]:
    """The states, and the index over those that the lists hold."""
    states = load_array(search / STATES)
    with np.load(search / "index.npz", allow_pickle=False) as saved:
        homes, parts, probes = saved["homes"], saved["parts"], int(saved["probes"])
    return states, InvertedLists(states[: len(homes)], homes, parts, probes)


# Agent and evaluation.


def agent_stage(arguments: Arguments, out: pathlib.Path) -> Work:
    """Trains and evaluates one seed of one method."""
    task, metric = arguments["task"], arguments["metric"]
    place = None if metric == "none" else metric_folder(out, task, metric)
    if place is not None and not (place / TABLE).exists():
        raise PloffError(f"{place} is gone, on which this run builds; put it back, or begin anew with another --out")
    note, embedded = files.read_record(data_note(out, task)), None if place is None else embedded_data(arguments, out)
    data = seen_data(arguments, out)
    if embedded is not None and embedded.data.observation_normalizer.map is not None:
        data = embedded.data  # a metric that was given has its coordinates already
    folder = run_folder(out, arguments)
    job = agent_run.AgentJob(
        folder=folder / f"seed-{arguments['seed']}",
        method=arguments["method"],
        settings=arguments["settings"],
        training=arguments["training"],
        seed=arguments["seed"],
        data=data,
        dataset=note["fingerprint"],
        embedded=embedded,
        eval_env=_eval_env(arguments, data),
        logger=arguments["logger"],
    )
    relevance = arguments["relevance"]
    coordinates = None if relevance is None else relevance_file(out, task, relevance)
    agent_run.write_config(job, arguments, note, metric=place, relevance=coordinates)
    result = yield from agent_run.train_agent(job)
    names = ("step", "score", "mean_return", "min_return", "max_return")
    return {
        "step": result.step,
        "score": result.score,
        "mean_return": result.mean_return,
        "evaluations": [{name: row[name] for name in names if name in row} for row in result.counted],
        "folder": str(folder.relative_to(out)),
    }


def evaluation_stage(arguments: Arguments, out: pathlib.Path) -> Work:
    """Evaluates a trained policy in new episodes."""
    yield Progress(0, arguments["episodes"])
    env = structure(EvalEnv, arguments["eval_env"], "evaluation environment")
    outcome = evaluate(
        load_policy(out / arguments["folder"]),
        env.environment,
        episodes=arguments["episodes"],
        seed=arguments["seed"],
        physics=env.physics,
        references=env.references,
        options=env.options,
    )
    return outcome.to_json()


def _eval_env(arguments: Arguments, data: Transitions) -> EvalEnv | None:
    """Where the policy is evaluated; if it cannot be, whoever began the run has said so once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PloffWarning)
        return find_eval_env(data, arguments["environment"], arguments["physics"])


STAGES: dict[str, Callable[[Arguments, pathlib.Path], Work]] = {
    "data": data_stage,
    "relevance": relevance_stage,
    "metric": metric_stage,
    "neighbors": neighbors_stage,
    "neighbors-part": neighbors_part_stage,
    "neighbors-table": neighbors_table_stage,
    "agent": agent_stage,
    "evaluation": evaluation_stage,
}
