"""Trains what was tried for PLOff's default: named variants of bonus and critic on some logs, in resumable runs.

    python benchmarks/agent_variants.py DATASET … --out FOLDER [--variants default,paper] [--steps 50000] [--seeds 1]
        [--csv FILE.csv]

All variants of a log share its metric and neighbors, in FOLDER/DATASET. Prints one row per run: the mean of its last
three evaluations, all of them, and the largest Q, whose bound is 100.
"""

import argparse
import pathlib

from ploff import train
from ploff.utils.errors import PloffError
from ploff.utils.files import write_csv

PAPER = {
    "layer_norm": False, "tau": 0.005, "bonus": "value", "actor_bonus_weight": 5.0, "critic_bonus_weight": 1.0,
    "deviation": "pair", "num_neighbors": 50, "beta": 0.5, "distance_unit": "none", "value_scale": "none",
    "policy_ema": 0.0,
}  # fmt: skip
VARIANTS = {
    "default": {},
    "paper": {**PAPER, "critic_form": "paper"},
    "paper but contractive": {**PAPER, "critic_form": "contractive"},
    "value temperature 0": {"value_temperature": 0.0},
    "value temperature 1": {"value_temperature": 1.0},
    "density": {"bonus": "density"},
    "nearest alone": {"bonus": "density", "beta": 100.0, "value_temperature": 0.0},
    "50 neighbors": {"num_neighbors": 50},
    "values over mean |Q|": {"value_scale": "mean_abs", "actor_bonus_weight": 0.15},
    "distances of pairs": {"deviation": "pair"},
    "the last actor": {"policy_ema": 0.0},
    "no layer norm": {"layer_norm": False},
    "slow targets": {"tau": 0.005},
    "actor's weight / 2": {"actor_bonus_weight": 1.25},
    "actor's weight x 2": {"actor_bonus_weight": 5.0},
    "critic's weight 0.03": {"critic_bonus_weight": 0.03},
    "critic's weight 0.3": {"critic_bonus_weight": 0.3},
    "fast": {"actor_lr": 1e-3, "critic_lr": 1e-3},
    "fast critic": {"critic_lr": 1e-3},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--variants", default="default")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--metric-steps", type=int)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    for dataset in options.datasets:
        name = pathlib.Path(dataset).stem
        for variant in options.variants.split(","):
            try:
                run = train(
                    dataset,
                    out=options.out / name,
                    metric_steps=options.metric_steps,
                    settings=VARIANTS[variant],
                    steps=options.steps,
                    seeds=options.seeds,
                    quiet=True,
                )
            except PloffError as error:
                print(f"{dataset}, {variant}: {error}", flush=True)
                continue
            for result in run.seeds:
                scores = [round(row["score"], 1) for row in result.evaluations]
                rows.append(
                    {
                        "dataset": name,
                        "variant": variant,
                        "seed": result.seed,
                        "steps": options.steps,
                        "score": round(result.score, 1),
                        "evaluations": " ".join(map(str, scores)),
                        "max_q": round(max(row["max_q"] for row in result.history), 1),
                    }
                )
                print(*rows[-1].values(), sep="  ", flush=True)
    if options.csv:
        write_csv(options.csv, rows)


if __name__ == "__main__":
    main()
