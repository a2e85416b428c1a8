"""Measures the peak memory of metric learning on a million HalfCheetah-shaped transitions, in the dataset's own bytes.

    python benchmarks/metric_memory.py [--steps 1000]

Two processes do the same work, one on a thirtieth of the data: the difference of their peaks is what the data costs,
itself included; the interpreter and the compiler weigh the same in both.
"""

import argparse
import concurrent.futures
import multiprocessing
import resource

import numpy as np

from ploff import ActionSpace, Transitions
from ploff.metric.train import MetricTraining, learn_metric


def cheetah_shaped(count: int) -> Transitions:
    """Draws random numbers of HalfCheetah's shapes, episodes of 1,000 steps."""
    rng = np.random.default_rng(0)
    return Transitions.from_rows(
        observations=rng.standard_normal((count, 17), np.float32),
        actions=2 * rng.random((count, 6), np.float32) - 1,
        rewards=rng.random(count, np.float32),
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % 1000 == 999,
        action_space=ActionSpace.box(-np.ones(6), np.ones(6)),
    )


def peak_bytes(count: int, steps: int) -> tuple[int, int]:
    """Gives the dataset's bytes, and the largest resident size of this process after learning from it."""
    training = MetricTraining(steps=steps, scan_length=500, check_every=500, early_stopping=False)
    data = cheetah_shaped(count)
    learn_metric(data, training=training, quiet=True)
    return data.nbytes(), 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    steps = parser.parse_args().steps
    fresh = multiprocessing.get_context("spawn")
    measured = []
    for count in (33_000, 1_000_000):
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=fresh) as process:
            measured.append(process.submit(peak_bytes, count, steps).result())
    (small, small_peak), (large, large_peak) = measured
    print(f"{small / 1e6:.0f} MB of data: peak {small_peak / 1e6:.0f} MB")
    print(f"{large / 1e6:.0f} MB of data: peak {large_peak / 1e6:.0f} MB")
    print(f"ratio: {(large_peak - small_peak) / (large - small):.2f}")


if __name__ == "__main__":
    main()
