"""Measures what CQL's cheaper gaps cost and how noisy they are: time of a step, noise of the critics' gradient.

    python benchmarks/cql_gap.py DATASET [--steps 4000] [--batches 24] [--rounds 3] [--out FILE.csv]

A CQL is trained for some steps. Then the gradient of its critics' loss is taken on so many batches with every setting
of `gap_batch_size` and `num_gradient_actions`: its noise is the deviation of that gradient over batches, in units of
the length of its mean as published. Settings are timed in turn, a whole update each; medians are printed.
"""

import argparse
import pathlib
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ploff
from ploff.agents import cql, get_method
from ploff.agents.dataset import OfflineDataset
from ploff.agents.td3 import bootstrapped_target
from ploff.training.loop import scan_updates
from ploff.utils.files import write_csv

SETTINGS = [(None, None), (32, None), (16, None), (256, 1), (128, 1), (64, 1), (32, 1), (16, 1)]
STEPS_TIMED = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    dataset = OfflineDataset.of(ploff.load(options.dataset).with_normalized_observations())
    configs = [
        cql.CQLConfig(warmup_steps=1_000, gap_batch_size=states, num_gradient_actions=actions)
        for states, actions in SETTINGS
    ]
    state = cql.init(jax.random.key(0), dataset, configs[-1])
    state = advanced(state, dataset, configs[-1], options.steps)
    gradients = [critic_gradients(state, dataset, config, options.batches) for config in configs]
    times: list[list[float]] = [[] for _ in configs]
    for _ in range(options.rounds + 1):  # the first compiles
        for config, seen in zip(configs, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(jax.tree.leaves(advanced(state, dataset, config, STEPS_TIMED)))
            seen.append(1e3 * (time.perf_counter() - start) / STEPS_TIMED)
    size = np.linalg.norm(gradients[0].mean(axis=0))
    rows = [
        {
            "gap_batch_size": "all" if config.gap_batch_size is None else config.gap_batch_size,
            "num_gradient_actions": "all" if config.num_gradient_actions is None else config.num_gradient_actions,
            "noise": round(float(np.sqrt(np.sum(np.var(each, axis=0, ddof=1))) / size), 3),
            "ms_per_step": round(statistics.median(seen[1:]), 2),
        }
        for config, each, seen in zip(configs, gradients, times, strict=True)
    ]
    print(f"{'states':>7} {'actions':>8} {'noise':>6} {'ms/step':>8} {'speedup':>8}")
    for row in rows:
        row["speedup"] = round(rows[0]["ms_per_step"] / row["ms_per_step"], 2)
        print(
            "{gap_batch_size:>7} {num_gradient_actions:>8} {noise:>6.2f} {ms_per_step:>8.1f} {speedup:>8.1f}".format(
                **row
            )
        )
    if options.out:
        write_csv(pathlib.Path(options.out), rows)


def advanced(state: cql.CQLState, dataset: OfflineDataset, config: cql.CQLConfig, steps: int) -> cql.CQLState:
    """Trains for so many updates."""
    update = get_method("cql").update_fn(config)
    return scan_updates(update, state, (dataset,), jax.random.key(0), jnp.asarray(0), steps)[0]


def critic_gradients(state: cql.CQLState, dataset: OfflineDataset, config: cql.CQLConfig, count: int) -> np.ndarray:
    """Takes the critics' gradient on so many batches, one row each."""

    @eqx.filter_jit
    def gradient(state: cql.CQLState, dataset: OfflineDataset, key: jax.Array) -> jax.Array:
        sample_key, actions_key, gap_key = jax.random.split(key, 3)
        _, batch = dataset.sample(sample_key, config.batch_size)
        actor = state.actor.params
        gap_actions = cql.sample_gap_actions(actor, batch, actions_key, config)
        next_value = state.critics.target.min(batch.next_observations, actor(batch.next_observations))
        target = bootstrapped_target(batch, next_value, config.discount)

        def loss(critics):
            return cql.conservative_loss(critics, batch, target, gap_actions, jnp.ones(()), gap_key, config)[0]

        leaves = jax.tree.leaves(eqx.filter(eqx.filter_grad(loss)(state.critics.params), eqx.is_inexact_array))
        return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])

    return np.stack([gradient(state, dataset, jax.random.key(number)) for number in range(count)])


if __name__ == "__main__":
    main()
