"""How far one weight lets a policy go on different logs, where values are in units of their size.

    python benchmarks/value_units.py [NAME=]DATASET … --out FOLDER [--steps 8000] [--metric-steps N]
        [--csv benchmarks/results/value_units.csv]

An actor that maximises Q/u − α d²/2 settles where the slope of the one is that of the other: d = q/(α u), with q the
slope of Q along the distance. TD3+BC and its kin have u = mean |Q|. This trains PLOff's default a while on each log
and prints q / mean |Q| for distances in spreads and in deviations, and how many times that of the first log it is: as
many times as far the same weight lets the policy go there. PLOff's own u is q: 1 on every log, by construction.

The metric and the neighbours of a log are made in FOLDER/NAME, where `benchmarks/baselines.py` has them, too.
"""

import argparse
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from baselines import named
from ploff import datasets
from ploff.agents import ploff
from ploff.agents.log import Evidence, Log
from ploff.agents.td3 import tangent
from ploff.pipeline.settings import metric_plan
from ploff.pipeline.stages import build_log, prepare
from ploff.training import scan_updates, write_csv

STEPS_A_SCAN = 1_000
STATES = 4_096


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+", metavar="[NAME=]DATASET")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--metric-steps", type=int)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    for task, dataset in map(named, options.datasets):
        data, folder = datasets.load(dataset), options.out / task
        plan = metric_plan("default", options.metric_steps, {})
        prepare("learned", folder, data, plan, quiet=True)
        log, _ = build_log("learned", folder, data)
        assert log.evidence is not None
        learned = promised(trained(log, options.steps), log, log.evidence, jax.random.key(1))
        spreads, deviations = float(learned * log.evidence.spread), float(learned * log.evidence.deviation)
        rows.append({"task": task, "steps": options.steps, "spreads": spreads, "deviations": deviations})
        print(f"{task}: a spread promises {spreads:.4f} of mean |Q|, a deviation {deviations:.4f};", end=" ")
        times = [rows[-1][unit] / rows[0][unit] for unit in ("spreads", "deviations")]
        print(f"{times[0]:.1f} and {times[1]:.1f} times the first log's", flush=True)
    if options.csv:
        write_csv(options.csv, rows)


def trained(log: Log, steps: int) -> ploff.PloffState:
    """PLOff's default after some steps."""
    config = ploff.PloffConfig()

    def update(state: ploff.PloffState, log: Log, key: PRNGKeyArray):
        return ploff.update(state, log, key, config)

    state = ploff.init(jax.random.key(0), log, config)
    for first in range(0, steps, STEPS_A_SCAN):
        count = min(STEPS_A_SCAN, steps - first)
        state, _ = scan_updates(update, state, (log,), jax.random.key(0), jnp.asarray(first), count)
    return state


@eqx.filter_jit
def promised(state: ploff.PloffState, log: Log, evidence: Evidence, key: PRNGKeyArray) -> Array:
    """What the critic promises for a move by 1 in the learned distance, as a share of mean |Q|."""
    _, batch = log.draw(key, STATES)
    actions = state.actor(batch.observations)
    values, slopes = tangent(lambda actions: state.critics.first(batch.observations, actions), actions)
    steepness = jnp.mean(jnp.linalg.norm(slopes * log.data.action_space.half_range, axis=-1))
    return steepness / evidence.slope / jnp.mean(jnp.abs(values))


if __name__ == "__main__":
    main()
