"""Trains two seeds of TD3+BC on two cores: one after the other, compiled together, or in two processes of a core each.

    python benchmarks/seeds.py [--steps 2000] [--rounds 5] [--out benchmarks/results/seeds.csv]

Every round measures all ways in turn, after they were compiled, so that a busy machine is busy for all of them. Printed
are updates per second over both seeds, the median over rounds, and the ratio to one after the other.
"""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import statistics
import time
from collections.abc import Callable

SEEDS = (0, 1)
METHOD = "td3-bc"


def setup():
    """Makes the update, one state per seed, and the dataset."""
    import jax

    from ploff import agents, datasets
    from ploff.agents.dataset import OfflineDataset

    method = agents.get_method(METHOD)
    config = method.config()
    data = datasets.load("sample").with_scaled_rewards(config.reward_scale).with_normalized_observations()
    dataset = OfflineDataset.of(data)
    states = [method.init(jax.random.key(seed), dataset, config) for seed in SEEDS]
    return method.update_fn(config), states, dataset


def one_by_one(steps: int) -> Callable[[], float]:
    """Trains both seeds in this process, which has all cores."""
    update, states, dataset = setup()
    return lambda: sum(timed_scan(update, states[seed], dataset, seed, steps) for seed in SEEDS)


def together(steps: int) -> Callable[[], float]:
    """Trains both seeds in one compiled program, by vmap."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    update, states, dataset = setup()
    arrays = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(eqx.filter(s, eqx.is_array) for s in states))
    static = eqx.filter(states[0], eqx.is_array, inverse=True)
    keys = jnp.stack([jax.random.key(seed) for seed in SEEDS])

    def both(arrays, dataset, key):
        def one(arrays, key):
            state, info = update(eqx.combine(arrays, static), dataset, key)
            return eqx.filter(state, eqx.is_array), info

        return jax.vmap(one)(arrays, jax.vmap(jax.random.fold_in, (0, None))(keys, jax.random.bits(key)))

    return lambda: timed_scan(both, arrays, dataset, 0, steps)


def timed_scan(update, state, dataset, seed: int, steps: int) -> float:
    """Measures the seconds of so many updates."""
    import jax
    import jax.numpy as jnp

    from ploff.training.loop import scan_updates

    began = time.perf_counter()
    jax.block_until_ready(scan_updates(update, state, (dataset,), jax.random.key(seed), jnp.asarray(0), steps))
    return time.perf_counter() - began


class Worker:
    """A process that trains one seed whenever it is told to, on the cores that it is given."""

    def __init__(self, seed: int, cores: set[int], steps: int):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, seed, cores, steps), daemon=True)
        self.process.start()

    def begin(self) -> None:
        """Tells it to train."""
        self.pipe.send(True)

    def wait(self) -> None:
        """Returns when it has."""
        self.pipe.recv()


def _work(pipe, seed: int, cores: set[int], steps: int) -> None:
    os.sched_setaffinity(0, cores)
    update, states, dataset = setup()
    with contextlib.suppress(EOFError):  # the other side has ended
        while pipe.recv():
            timed_scan(update, states[seed], dataset, seed, steps)
            pipe.send(True)


def processes(steps: int, cores: list[set[int]]) -> Callable[[], float]:
    """Trains one seed in each of as many processes."""
    workers = [Worker(seed, own, steps) for seed, own in zip(SEEDS, cores, strict=False)]

    def measure() -> float:
        began = time.perf_counter()
        for worker in workers:
            worker.begin()
        for worker in workers:
            worker.wait()
        return time.perf_counter() - began

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    first, second, *_ = sorted(os.sched_getaffinity(0))
    ways = {
        "one after the other, all cores": (one_by_one(arguments.steps), 2),
        "compiled together, all cores": (together(arguments.steps), 2),
        "two processes, a core each": (processes(arguments.steps, [{first}, {second}]), 2),
        "one seed, one core": (processes(arguments.steps, [{first}]), 1),
        "one seed, two cores": (processes(arguments.steps, [{first, second}]), 1),
    }
    for measure, _ in ways.values():
        measure()  # compiles
    seconds = {name: list[float]() for name in ways}
    for _ in range(arguments.rounds):
        for name, (measure, _) in ways.items():
            seconds[name].append(measure())
    load = os.getloadavg()[0]
    rows = []
    slowest = statistics.median(seconds["one after the other, all cores"]) / 2
    for name, (_, seeds) in ways.items():
        middle = statistics.median(seconds[name])
        rate = seeds * arguments.steps / middle
        ratio = slowest * seeds / middle
        rows.append(
            {
                "way": name,
                "updates_per_second": round(rate, 1),
                "ratio": round(ratio, 2),
                "load": round(load, 1),
            }
        )
        print(f"{name:32} {rate:9,.0f} updates/s   {ratio:5.2f} times one after the other")
    if arguments.out:
        from ploff.utils.files import write_csv

        write_csv(arguments.out, rows)


if __name__ == "__main__":
    main()
