"""Measures what separates logged from random actions: variants of the metric beside plain L2, on several datasets.

    python benchmarks/metric_variants.py FILE [FILE …] --steps 10000 --variants printed,default --out results.csv

Each variant is trained once per dataset; the weight w of the action term is added afterwards (it needs no training), so
every run gives a row for each w. Rows that the CSV has already are not made again. Columns: ROC areas of the distance
to the data, held-out logged actions against uniform ones and against noisy ones, on held-out episodes (`support_auc`,
`noise_auc`) and on rows of the log itself, each without itself (`in_log_auc`); the held-out residual; the largest
distance seen in training, in units of its bound (`max_over_bound`).
"""

import argparse
import dataclasses
import math
import pathlib

import jax

from ploff import Transitions, datasets
from ploff.metric import quality
from ploff.metric.pseudometric import MetricConfig, Pseudometric, mean_action_distance
from ploff.metric.train import LearnedMetric, MetricTraining, in_training_units, learn_metric
from ploff.neighbors import Euclidean
from ploff.utils.files import read_csv, write_csv

PRINTED = MetricConfig(next_actions="uniform", action_weight=0.0, state_weight=0.0, bounded=False)
VARIANTS = {
    "printed": PRINTED,
    "printed-raw": dataclasses.replace(PRINTED, normalize_observations=False),
    "bounded": dataclasses.replace(PRINTED, bounded=True),
    "bounded-log": dataclasses.replace(PRINTED, bounded=True, next_actions="log"),
    "v=0.1": dataclasses.replace(PRINTED, bounded=True, next_actions="log", state_weight=0.1),
    "v=0.3": dataclasses.replace(PRINTED, bounded=True, next_actions="log", state_weight=0.3),
    "v=1": dataclasses.replace(PRINTED, bounded=True, next_actions="log", state_weight=1.0),
    "default": MetricConfig(),
}


def support(metric, data, split) -> dict[str, float]:
    """Measures the three ROC areas."""
    key = jax.random.key(1)
    uniform, noisy = quality.support_auc(metric, data, split, key, queries=2000)
    rows = data.rows_with_successor()
    in_log, _ = quality.support_auc(metric, data, quality.EpisodeSplit(rows, rows), key, queries=2000)
    return {"support_auc": round(uniform, 4), "noise_auc": round(noisy, 4), "in_log_auc": round(in_log, 4)}


def reweighted(learned: LearnedMetric, data: Transitions, weight: float) -> Pseudometric:
    """Gives the same metric another weight of the action term, in units of the log's own distances."""
    space = data.action_space
    w = weight * learned.history[-1]["mean_distance"] / mean_action_distance(data)
    scale = w / (space.half_range * math.sqrt(space.width))
    return dataclasses.replace(learned.metric, action_scale=tuple(float(x) for x in scale))


def rows_of(path: str, name: str, steps: int, seed: int, weights: tuple[float, ...]) -> list[dict]:
    """Trains one variant on one dataset, and measures it for every weight; the default for its own."""
    data = datasets.load(path)
    training = MetricTraining(steps=steps, early_stopping=False, check_every=max(500, steps // 500 * 500), seed=seed)
    task = data.origin.name
    if name == "L2":
        data = in_training_units(data, MetricConfig()).to_device()
        split = quality.EpisodeSplit.of(data, training.validation_fraction, seed)
        return [{"task": task, "variant": name, "steps": 0, "w": "", **support(Euclidean(), data, split)}]
    config = VARIANTS[name]
    learned = learn_metric(data, config, training)
    data = in_training_units(data, config).to_device()
    split = quality.EpisodeSplit.of(data, training.validation_fraction, seed)
    largest = max(row["max_distance"] for row in learned.history) / learned.bound
    residual = quality.bellman_residual(learned.metric, data, split.validation, jax.random.key(2), config)
    weights = (config.action_weight,) if name == "default" else weights
    shared = {
        "residual": round(residual, 4),
        "mean_distance": round(learned.history[-1]["mean_distance"], 4),
        "max_over_bound": round(largest, 4),
    }
    return [
        {
            "task": task, "variant": name, "steps": steps, "w": weight,
            **support(reweighted(learned, data, weight), data, split), **shared,
        }
        for weight in weights
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", default=",".join(["L2", *VARIANTS]))
    parser.add_argument("--weights", default="0,0.3,1,3,10", help="of the action term")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    weights = tuple(float(weight) for weight in options.weights.split(","))
    rows = read_csv(options.out)
    for name in options.variants.split(","):
        for path in options.files:
            task, steps = datasets.load(path).origin.name, 0 if name == "L2" else options.steps
            if any((row["task"], row["variant"], row["steps"]) == (task, name, str(steps)) for row in rows):
                continue
            found = rows_of(path, name, options.steps, options.seed, weights)
            rows += [{key: str(value) for key, value in row.items()} for row in found]
            write_csv(options.out, rows)
            for row in found:
                print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
