"""What was tried for PLOff's default: named variants of bonus and critic on some logs, in resumable runs.

    python benchmarks/agent_variants.py DATASET … --out FOLDER [--variants default,paper] [--steps 50000] [--seeds 1]
        [--csv benchmarks/results/agent_variants.csv]

All variants of a log share its metric and neighbours (FOLDER/DATASET). A row a run: the mean of its last three
evaluations, all of them, and the largest Q, whose bound is 100.
"""

import argparse
import pathlib

from ploff import train
from ploff.errors import PloffError
from ploff.training import write_csv

PAPER = {
    "layer_norm": False, "target_rate": 0.005, "bonus": "value", "actor_weight": 5.0, "critic_weight": 1.0,
    "neighbours": 50, "sharpness": 0.5, "unit": "learned", "value_unit": "reward", "averaging": 0.0,
}  # fmt: skip
VARIANTS = {
    "default": {},
    "paper": {**PAPER, "critic_form": "paper"},
    "paper, contractive": {**PAPER, "critic_form": "contractive"},
    "paper, contractive, in spacings": {**PAPER, "critic_form": "contractive", "unit": "spacing"},
    "no merit": {"sway": 0.0},
    "merit 2": {"sway": 2.0},
    "density": {"bonus": "density"},
    "nearest alone": {"bonus": "density", "sharpness": 100.0, "sway": 0.0},
    "wide": {"neighbours": 50},
    "values by their size": {"value_unit": "size", "unit": "spread", "actor_weight": 0.15},
    "the last actor": {"averaging": 0.0},
    "no layer norm": {"layer_norm": False},
    "slow targets": {"target_rate": 0.005},
    "weight / 2": {"actor_weight": 1.25},
    "weight x 2": {"actor_weight": 5.0},
    "critic's penalty 0.03": {"critic_weight": 0.03},
    "critic's penalty 0.3": {"critic_weight": 0.3},
    "fast": {"actor_rate": 1e-3, "critic_rate": 1e-3},
    "fast critic": {"critic_rate": 1e-3},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
        for variant in options.variants.split(","):
            folder = options.out / pathlib.Path(dataset).stem
            try:
                run = train(
                    dataset,
                    out=folder / variant.replace(" ", "-").replace("/", "by"),
                    metric=folder,
                    metric_steps=options.metric_steps,
                    settings=VARIANTS[variant],
                    steps=options.steps,
                    seeds=options.seeds,
                    quiet=True,
                )
            except PloffError as error:
                print(f"{dataset}, {variant}: {error}", flush=True)
                continue
            for seed in run.seeds:
                scores = [round(row["score"], 1) for row in seed.evaluations]
                rows.append(
                    {
                        "dataset": pathlib.Path(dataset).stem,
                        "variant": variant,
                        "seed": seed.seed,
                        "steps": options.steps,
                        "score": round(seed.score, 1),
                        "evaluations": " ".join(map(str, scores)),
                        "largest_q": round(max(row["largest_q"] for row in seed.history), 1),
                    }
                )
                print(*rows[-1].values(), sep="  ", flush=True)
    if options.csv:
        write_csv(options.csv, rows)


if __name__ == "__main__":
    main()
