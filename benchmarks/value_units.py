"""Measures how far one weight lets a policy go on different logs, where values are in units of mean |Q|.

    python benchmarks/value_units.py [NAME=]DATASET … --out FOLDER [--steps 8000] [--metric-steps N]
        [--csv benchmarks/results/value_units.csv]

An actor that maximizes Q/u − α d²/2 settles where the slope of the one is that of the other: d = q/(α u), with q the
slope of Q along the distance. TD3+BC and its kin have u = mean |Q|. This trains PLOff's default a while on each log
and prints q / mean |Q| for distances in neighborhood radii and in standard deviations, and how many times that of the
first log it is: as many times as far the same weight lets the policy go there. PLOff's own u is q: 1 on every log, by
construction.

The metric and the neighbors of a log are made in FOLDER/NAME, and found there again.
"""

import argparse
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ploff import Transitions, datasets
from ploff.agents import get_method
from ploff.agents.dataset import DistanceStats, OfflineDataset
from ploff.agents.ploff import PloffConfig, PloffState
from ploff.agents.td3 import value_and_action_grad
from ploff.metric.train import MetricTraining, learn_metric
from ploff.neighbors import DataDistance, TableKey, find_neighbors
from ploff.training.loop import scan_updates
from ploff.utils.files import write_csv

SCAN_LENGTH = 1_000
STATES = 4_096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="[NAME=]DATASET")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--metric-steps", type=int)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    for task, source in map(named, options.datasets):
        dataset = with_distances(datasets.load(source), options.out / task, options.metric_steps)
        stats = dataset.distances
        assert stats is not None
        slope = relative_slope(trained(dataset, options.steps), dataset, stats, jax.random.key(1))
        radii, deviations = float(slope * stats.neighborhood_radius), float(slope * stats.directional_std)
        rows.append(
            {"task": task, "steps": options.steps, "neighborhood_radii": radii, "standard_deviations": deviations}
        )
        print(f"{task}: a radius promises {radii:.4f} of mean |Q|, a standard deviation {deviations:.4f};", end=" ")
        times = [rows[-1][unit] / rows[0][unit] for unit in ("neighborhood_radii", "standard_deviations")]
        print(f"{times[0]:.1f} and {times[1]:.1f} times the first log's", flush=True)
    if options.csv:
        write_csv(options.csv, rows)


def named(given: str) -> tuple[str, str]:
    """Splits what was given into a task's name and its dataset."""
    name, separator, dataset = given.partition("=")
    return (name, dataset) if separator else (pathlib.Path(given).stem, given)


def with_distances(data: Transitions, folder: pathlib.Path, metric_steps: int | None) -> OfflineDataset:
    """Adds distances in the default metric to a log; what is missing of the metric and its neighbors is made."""
    training = MetricTraining() if metric_steps is None else MetricTraining(steps=metric_steps)
    learned = learn_metric(data, training=training, out=folder, quiet=True)
    seen, key = learned.in_units_of(data), TableKey.of(learned.fingerprint, data)
    table = find_neighbors(folder / "neighbors.table", learned.metric, seen, key, quiet=True)
    distance = DataDistance.init(learned.metric, seen, np.asarray(table.rows))
    return OfflineDataset.of(data.with_unit_rewards().with_normalized_observations(), DistanceStats.of(distance))


def trained(dataset: OfflineDataset, steps: int) -> PloffState:
    """Trains PLOff's default for some steps."""
    method, config = get_method("ploff"), PloffConfig()
    update, state = method.update_fn(config), method.init(jax.random.key(0), dataset, config)
    for first in range(0, steps, SCAN_LENGTH):
        count = min(SCAN_LENGTH, steps - first)
        state, _ = scan_updates(update, state, (dataset,), jax.random.key(0), jnp.asarray(first), count)
    return state


@eqx.filter_jit
def relative_slope(state: PloffState, dataset: OfflineDataset, stats: DistanceStats, key: PRNGKeyArray) -> Array:
    """Measures what the critic promises for a move by 1 in the learned distance, as a share of mean |Q|."""
    _, batch = dataset.sample(key, STATES)
    actions = state.actor.params(batch.observations)
    q, q_grad = value_and_action_grad(lambda actions: state.critics.params.q1(batch.observations, actions), actions)
    steepness = jnp.mean(jnp.linalg.norm(q_grad * dataset.data.action_space.half_range, axis=-1))
    return steepness / stats.action_sensitivity / jnp.mean(jnp.abs(q))


if __name__ == "__main__":
    main()
