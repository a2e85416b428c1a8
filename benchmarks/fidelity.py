"""Measures how near neighbors are in what matters, on logs with columns of which it is known that they mean nothing.

    python benchmarks/fidelity.py DATASET … [--walks 30] [--rotate] [--metric-steps 20000] [--seeds 1] --csv FILE.csv

For each log and seed: the 20 nearest states under plain L2 in the meaningful columns alone, in all columns, in the
coordinates of the relevance, and under the learned metric in these. Each row has the root mean square difference of the
meaningful columns, and of the actions, relative to random pairs (1); and how many columns and directions were kept.
"""

import argparse
import pathlib

import faiss
import numpy as np

import ploff
from ploff.environments.distraction import Distraction, distract
from ploff.neighbors import embed_logged_states
from ploff.relevance import RelevanceConfig, learn_relevance
from ploff.transitions import Transitions
from ploff.utils.files import read_csv, write_csv

NEIGHBORS, QUERIES = 20, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--walks", type=int, default=30)
    parser.add_argument("--rotate", action="store_true")
    parser.add_argument("--metric-steps", type=int, default=20_000, help="0: no metric is learned")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--csv", type=pathlib.Path, required=True)
    options = parser.parse_args()
    rows = read_csv(options.csv)
    for name in options.datasets:
        data = ploff.load(name)
        for seed in range(options.seeds):
            case = {"log": data.origin.name, "walks": options.walks, "rotated": options.rotate, "seed": seed}
            if not any(all(row[key] == str(value) for key, value in case.items()) for row in rows):
                rows += [case | row for row in measure(data, options, seed)]
                write_csv(options.csv, rows)
    for row in rows:
        print(*row.values(), sep="\t")


def measure(data: Transitions, options: argparse.Namespace, seed: int) -> list[dict]:
    """The rows of one log and seed."""
    changed = distract(data, Distraction(walks=options.walks, rotate=options.rotate, seed=seed))
    relevance = learn_relevance(changed, RelevanceConfig(seed=seed))
    relevant, meaningful = np.asarray(relevance.relevant()), data.observation_shape[0]
    kept = {"directions": relevance.kept, "meaningful_columns": meaningful}
    if not options.rotate:
        kept |= {
            "meaningful_kept": int(relevant[:meaningful].sum()),
            "noise_kept": int(relevant[meaningful:].sum()),
            "largest_share_cut": float(relevance.shares[:meaningful][~relevant[:meaningful]].max(initial=0.0)),
        }
    own, seen = data.with_normalized_observations(), relevance.applied_to(changed)
    spaces = {
        "L2, meaningful columns": coordinates(own),
        "L2, all columns": coordinates(changed.with_normalized_observations()),
        "L2, relevance": coordinates(seen),
    }
    if options.metric_steps:
        training = ploff.MetricTraining(steps=options.metric_steps, early_stopping=False, seed=seed)
        learned = ploff.learn_metric(seen, training=training)
        spaces["learned, relevance"] = embed_logged_states(learned.metric, learned.in_units_of(changed).to_device())
    return [{"neighbors": name, **fidelity(points[: len(data)], own), **kept} for name, points in spaces.items()]


def coordinates(data: Transitions) -> np.ndarray:
    """The acted states as learners see them."""
    return np.asarray(data.states(np.arange(len(data))))


def fidelity(points: np.ndarray, own: Transitions) -> dict[str, float]:
    """How near the neighbors under L2 between `points` are in the meaningful columns, and in actions."""
    points = np.ascontiguousarray(points, np.float32)
    queries = np.random.default_rng(0).choice(len(points), QUERIES, replace=False)
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points)
    near = index.search(points[queries], NEIGHBORS + 1)[1][:, 1:]
    anyone = np.random.default_rng(1).integers(0, len(points), near.shape)

    def apart(values: np.ndarray, rows: np.ndarray) -> float:
        return float(np.sqrt(np.square(values[queries][:, None] - values[rows]).mean(axis=-1)).mean())

    states, actions = coordinates(own), np.asarray(own.actions)
    return {
        "columns": round(apart(states, near) / apart(states, anyone), 4),
        "actions": round(apart(actions, near) / apart(actions, anyone), 4),
    }


if __name__ == "__main__":
    main()
