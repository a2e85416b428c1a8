"""Compares the fast estimator of the printed losses with the literal one, from the same initial parameters.

    python benchmarks/metric_equality.py FILE --run FOLDER --out benchmarks/results/metric_equality.csv [--steps 2000]

All learn the paper's own operator on normalized observations; they differ only in how pairs and next actions are
drawn: as in `MetricConfig.paper()`, as there with the default's 128 rows, and literally. The held-out residual of the
fixed-point equation is measured along the way, with the same pairs and actions for all. The literal estimator takes
hours where the fast one takes seconds; FOLDER keeps its checkpoint, so it can be stopped and resumed. The last line is
the ratio of the residuals, `MetricConfig.paper()` over literal.
"""

import argparse
import pathlib

from ploff import datasets
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining, learn_metric
from ploff.utils.files import write_csv

PRESET, LITERAL = "fast, 256 rows", "literal"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--run", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    data = datasets.load(options.file)
    configs = {
        PRESET: MetricConfig.paper(normalize_observations=True),
        "fast, 128 rows": MetricConfig.paper(normalize_observations=True, batch_size=MetricConfig.batch_size),
        LITERAL: MetricConfig.paper(normalize_observations=True, estimator=LITERAL),
    }
    training = MetricTraining(steps=options.steps, early_stopping=False, scan_length=25, check_every=options.steps // 4)
    rows, last = [], {}
    for name, config in configs.items():
        learned = learn_metric(data, config, training, out=options.run / name.replace(", ", "-").replace(" ", "-"))
        rows += [{"estimator": name, "dataset": data.origin.name, **check} for check in learned.checks]
        last[name] = learned.checks[-1]["residual"]
        print(f"{name}: held-out residual {last[name]:.4f} after {options.steps} steps", flush=True)
        write_csv(options.out, rows)
    for name in configs:
        print(f"{name}: {last[name] / last[LITERAL] - 1:+.1%} against the literal estimator")
    print(f"ratio: {last[PRESET] / last[LITERAL]:.3f}")


if __name__ == "__main__":
    main()
