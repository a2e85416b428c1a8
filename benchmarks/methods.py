"""Times the steps of every method with its own defaults, in one run, on logs of Hopper's shapes.

    python benchmarks/methods.py [--rounds 5] [--steps 40] [--methods bc,iql] [--out FILE.csv]

Rounds go through all methods in turn, so that a noisy machine slows all of them; medians are printed, and beside them
how many times cloning's step a step takes. Time does not depend on the values, so the log is made of random numbers.
"""

import argparse
import pathlib
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from ploff import ActionSpace, Transitions, agents, neighbors
from ploff.agents.dataset import DistanceStats, OfflineDataset
from ploff.metric import learner
from ploff.metric.pseudometric import MetricConfig
from ploff.tasks import Family
from ploff.training.loop import scan_updates
from ploff.utils.files import write_csv

STATES, ACTIONS, TRANSITIONS, NEIGHBORS = 11, 3, 100_000, 50
PRINTED: dict[str, Family] = {"td3-off": "locomotion"}  # methods that are timed as printed: this one is plain TD3 then
ROUND_OF_AWR = 1_500  # in which it values the whole log twice: all of that, or it seems too quick or too slow


def hopper_shaped(seed: int = 0) -> Transitions:
    """Draws random numbers of Hopper's shapes."""
    rng = np.random.default_rng(seed)
    return Transitions.from_rows(
        observations=rng.normal(size=(TRANSITIONS, STATES)).astype(np.float32),
        actions=rng.uniform(-1, 1, (TRANSITIONS, ACTIONS)).astype(np.float32),
        rewards=rng.uniform(size=TRANSITIONS).astype(np.float32),
        terminals=np.arange(TRANSITIONS) % 500 == 499,
        timeouts=np.zeros(TRANSITIONS, bool),
        action_space=ActionSpace.box(-np.ones(ACTIONS), np.ones(ACTIONS)),
    ).with_unit_rewards()


def dataset_with(kind: agents.DistanceKind, data: Transitions) -> OfflineDataset:
    """Makes the dataset with distances of the kind; its neighbors are any rows."""
    if kind == "none":
        return OfflineDataset.of(data)
    metric = neighbors.Euclidean()
    if kind == "learned":
        metric = learner.init(jax.random.key(0), data, MetricConfig()).metric.params
    near = np.random.default_rng(1).integers(0, len(data), (data.num_states, NEIGHBORS), dtype=np.int32)
    return OfflineDataset.of(data, DistanceStats.of(neighbors.DataDistance.init(metric, data, near)))


class Contender:
    """One method, compiled and ready to be timed."""

    def __init__(self, name: str, dataset: OfflineDataset, steps: int):
        method = agents.get_method(name)
        self.name, self.dataset, self.config = name, dataset, method.config(paper=PRINTED.get(name))
        self.steps = ROUND_OF_AWR if name == "awr" else steps
        self.update, self.times = method.update_fn(self.config), list[float]()
        self.state = method.init(jax.random.key(0), dataset, self.config)
        self._run()

    def _run(self) -> None:
        result = scan_updates(self.update, self.state, (self.dataset,), jax.random.key(0), jnp.asarray(0), self.steps)
        jax.block_until_ready(jax.tree.leaves(result[1]))

    def time(self) -> None:
        """Adds one measurement, in milliseconds per step."""
        start = time.perf_counter()
        self._run()
        self.times.append(1e3 * (time.perf_counter() - start) / self.steps)

    @property
    def milliseconds(self) -> float:
        """The median time of a step."""
        return statistics.median(self.times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--methods", default=",".join(agents.METHODS))
    parser.add_argument("--out")
    options = parser.parse_args()
    data = hopper_shaped()
    datasets = {kind: dataset_with(kind, data) for kind in ("none", "l2", "learned")}
    names = dict.fromkeys(["bc", *options.methods.split(",")])
    contenders = [Contender(name, datasets[agents.get_method(name).distance], options.steps) for name in names]
    for _ in range(options.rounds):
        for contender in contenders:
            contender.time()
    rows = [
        {
            "method": c.name,
            "batch_size": c.config.batch_size,
            "ms_per_step": round(c.milliseconds, 3),
            "steps_per_second": round(1e3 / c.milliseconds, 1),
            "ratio_to_bc": round(c.milliseconds / contenders[0].milliseconds, 1),
        }
        for c in contenders
    ]
    print(f"{'method':>10} {'batch':>6} {'ms/step':>9} {'steps/s':>9} {'x bc':>6}")
    for row in rows:
        print(
            "{method:>10} {batch_size:>6} {ms_per_step:>9.2f} {steps_per_second:>9.1f} {ratio_to_bc:>6.1f}".format(
                **row
            )
        )
    if options.out:
        write_csv(pathlib.Path(options.out), rows)


if __name__ == "__main__":
    main()
