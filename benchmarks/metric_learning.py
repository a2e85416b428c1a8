"""Times a step of metric learning: the literal losses, their fast estimator, and the default, in one run.

    python benchmarks/metric_learning.py [--rounds 5]

On HalfCheetah's shapes. Rounds alternate between the contenders, so that a noisy machine slows all of them; medians are
printed. The last line is `ratio: R`, the literal step over the default's. `metric_equality.py` shows what steps buy.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from ploff import ActionSpace, Transitions
from ploff.metric import learner
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import update_fn
from ploff.training.loop import scan_updates

STATES, ACTIONS, TRANSITIONS = 17, 6, 100_000


def cheetah_shaped(seed: int = 0) -> Transitions:
    """Draws random numbers of HalfCheetah's shapes: time does not depend on the values."""
    rng = np.random.default_rng(seed)
    flags = np.zeros(TRANSITIONS, bool)
    return Transitions.from_rows(
        observations=rng.normal(size=(TRANSITIONS, STATES)).astype(np.float32),
        actions=rng.uniform(-1, 1, (TRANSITIONS, ACTIONS)).astype(np.float32),
        rewards=rng.uniform(size=TRANSITIONS).astype(np.float32),
        terminals=flags,
        timeouts=np.arange(TRANSITIONS) % 1000 == 999,
        action_space=ActionSpace.box(-np.ones(ACTIONS), np.ones(ACTIONS)),
    ).with_normalized_observations()


def matmul_peak(seconds: float = 1.0) -> float:
    """Measures a large single-precision product in GFLOP/s, the best of many."""
    size = 1024
    x = jnp.ones((size, size))
    product = jax.jit(lambda x: x @ x)
    product(x).block_until_ready()
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        product(x).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def gigaflops_per_step(config: MetricConfig) -> float:
    """Counts the multiplications and additions of the matrix products in one step, by hand."""
    rows = config.batch_size * (2 if config.estimator == "literal" else 1)
    (hidden,), embedding, draws = config.hidden_sizes, config.embedding_size, config.num_next_actions
    layer_phi = (STATES + ACTIONS + embedding) * hidden
    layer_psi = (STATES + embedding) * hidden
    if config.estimator == "literal":
        bootstrap = rows * draws * layer_phi
    else:  # the first layer is an outer sum: its products do not multiply
        bootstrap = (rows * STATES + draws * ACTIONS + rows * draws * embedding) * hidden
    # Trained networks: forward, and backward twice that less the gradient to the inputs. Targets: forward only.
    trained = 3 * rows * (layer_phi + layer_psi) - rows * (2 * STATES + ACTIONS) * hidden
    return 2 * (trained + rows * layer_psi + bootstrap) / 1e9


class Contender:
    """One configuration, compiled and ready to be timed."""

    def __init__(self, name: str, config: MetricConfig, data: Transitions, steps: int):
        self.name, self.config, self.steps = name, config, steps
        self.state = learner.init(jax.random.key(0), data, config)
        self.operands = (data.to_device(), jnp.asarray(data.rows_with_successor(), jnp.int32))
        self.times = []
        self._run()

    def _run(self) -> None:
        key, first = jax.random.key(0), jnp.asarray(0)
        result = scan_updates(update_fn(self.config), self.state, self.operands, key, first, self.steps)
        jax.block_until_ready(result[1])

    def time(self) -> None:
        """Adds one measurement, in milliseconds per step."""
        start = time.perf_counter()
        self._run()
        self.times.append(1e3 * (time.perf_counter() - start) / self.steps)

    def line(self, peak: float) -> str:
        """Puts the result in words."""
        milliseconds = statistics.median(self.times)
        rate = gigaflops_per_step(self.config) / milliseconds * 1e3
        extremes = f"{min(self.times):.2f} to {max(self.times):.2f}"
        share = f"{rate:.1f} GFLOP/s, {rate / peak:.0%} of peak"
        return f"{self.name:<19} {milliseconds:8.2f} ms per step ({extremes}), {share}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    data = cheetah_shaped()
    literal = Contender("literal, as printed", MetricConfig.paper(estimator="literal"), data, steps=3)
    preset = Contender("paper preset", MetricConfig.paper(), data, steps=200)
    default = Contender("default", MetricConfig(), data, steps=400)
    contenders = (literal, preset, default)
    peaks = []
    for _ in range(rounds):
        peaks.append(matmul_peak())
        for contender in contenders:
            contender.time()
    peak = max(peaks)
    print(f"matmul peak {peak:.1f} GFLOP/s (best of {len(peaks)} tries; the worst: {min(peaks):.1f})")
    for contender in contenders:
        print(contender.line(peak))
    slow, paper, quick = (statistics.median(contender.times) for contender in contenders)
    print(f"literal over paper preset: {slow / paper:.0f}")
    print(f"ratio: {slow / quick:.0f}")


if __name__ == "__main__":
    main()
