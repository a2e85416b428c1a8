"""What CQL's cheaper gaps cost and how noisy they are: time of a step and noise of the critics' gradient, in one run.

    python benchmarks/cql_gap.py DATASET [--steps 4000] [--draws 24] [--rounds 3] [--out FILE.csv]

A CQL is trained for some steps. Then the gradient of its critics' loss is taken on so many batches with every setting
of `gap_states` and `gap_draws`: its noise is the deviation of that gradient over batches, in units of the length of its
mean as published. Settings are timed in turn, a whole update each; medians are printed.
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
from ploff.agents import cql
from ploff.agents.learner import bootstrapped
from ploff.agents.log import Log
from ploff.training import scan_updates, write_csv

SETTINGS = [(None, None), (32, None), (16, None), (256, 1), (128, 1), (64, 1), (32, 1), (16, 1)]
STEPS_TIMED = 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    log = Log.of(ploff.load(options.dataset).with_standard_observations())
    configs = [cql.CQLConfig(warmup=1_000, gap_states=states, gap_draws=draws) for states, draws in SETTINGS]
    state = cql.init(jax.random.key(0), log, configs[-1])
    state = advanced(state, log, configs[-1], options.steps)
    gradients = [gradients_of(state, log, config, options.draws) for config in configs]
    times: list[list[float]] = [[] for _ in configs]
    for _ in range(options.rounds + 1):  # the first compiles
        for config, seen in zip(configs, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(jax.tree.leaves(advanced(state, log, config, STEPS_TIMED)))
            seen.append(1e3 * (time.perf_counter() - start) / STEPS_TIMED)
    size = np.linalg.norm(gradients[0].mean(axis=0))
    rows = [
        {
            "gap_states": "all" if config.gap_states is None else config.gap_states,
            "gap_draws": "all" if config.gap_draws is None else config.gap_draws,
            "noise": round(float(np.sqrt(np.sum(np.var(each, axis=0, ddof=1))) / size), 3),
            "ms_a_step": round(statistics.median(seen[1:]), 2),
        }
        for config, each, seen in zip(configs, gradients, times, strict=True)
    ]
    print(f"{'states':>7} {'draws':>6} {'noise':>6} {'ms/step':>8} {'times as fast':>14}")
    for row in rows:
        row["times_as_fast"] = round(rows[0]["ms_a_step"] / row["ms_a_step"], 2)
        print(
            "{gap_states:>7} {gap_draws:>6} {noise:>6.2f} {ms_a_step:>8.1f} {times_as_fast:>14.1f}".format(
                **row
            )
        )
    if options.out:
        write_csv(pathlib.Path(options.out), rows)


def advanced(state: cql.CQLState, log: Log, config: cql.CQLConfig, steps: int) -> cql.CQLState:
    """The state after so many updates."""
    update = ploff.agents.method("cql").update(config)
    return scan_updates(update, state, (log,), jax.random.key(0), jnp.asarray(0), steps)[0]


def gradients_of(state: cql.CQLState, log: Log, config: cql.CQLConfig, count: int) -> np.ndarray:
    """The critics' gradient on so many batches, a row each."""

    @eqx.filter_jit
    def gradient(state: cql.CQLState, log: Log, key: jax.Array) -> jax.Array:
        draw_key, propose_key, gap_key = jax.random.split(key, 3)
        _, batch = log.draw(draw_key, config.batch)
        actor = state.actor.network
        proposals = cql.propose(actor, batch, propose_key, config)
        value = state.target_critics.least(batch.next_observations, actor(batch.next_observations))
        target = bootstrapped(batch, value, config.discount)

        def loss(critics):
            return cql.conservative_loss(critics, batch, target, proposals, jnp.ones(()), gap_key, config)[0]

        leaves = jax.tree.leaves(
            eqx.filter(eqx.filter_grad(loss)(state.critics.network), eqx.is_inexact_array)
        )
        return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])

    return np.stack([gradient(state, log, jax.random.key(number)) for number in range(count)])


if __name__ == "__main__":
    main()
