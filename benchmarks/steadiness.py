"""Is a method that scores low wrong, or unsteady? Its policy beside a moving average of it, in one run.

    python benchmarks/steadiness.py DATASET --environment hopper --method cql [--set NAME=VALUE …] [--steps 50000]
        [--every 5000] [--episodes 10] [--memory 0.1] [--seed 0] [--out FILE.csv]

The average has a memory of a share of the steps so far, and nothing is learned from it: the method goes on as it would
without. Both are tried on the same episodes. Where values are wrong, an average of the policies that follow them is
wrong, too; where single steps of the actor decide between running and falling, it is not.
"""

import argparse
import dataclasses
import pathlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import ploff
from ploff import agents
from ploff.agents.actor_critic import moved
from ploff.agents.log import Log
from ploff.pipeline.settings import assignments, method_config
from ploff.training import scan_updates, write_csv


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument("--environment", required=True)
    parser.add_argument("--method", default="cql")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", action="extend")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--every", type=int, default=5_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--memory", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    options = parser.parse_args()
    method, key = agents.method(options.method), jax.random.key(options.seed)
    config = method_config(method, "default", assignments(options.set))
    data = ploff.load(options.dataset).with_standard_observations()
    data = data.with_rewards(getattr(config, "rewards", "unit"))  # cloning has none
    log = Log.of(data)
    state = Watched(method.init(key, log, config), None, jnp.zeros(()))
    state = dataclasses.replace(state, average=eqx.filter(state.learner.actor, eqx.is_inexact_array))
    update = Watching(method.update(config), options.memory)
    rows = []
    for step in range(0, options.steps, options.every):
        state, _ = scan_updates(update, state, (log,), key, jnp.asarray(step), options.every)
        row = {"method": options.method, "seed": options.seed, "step": step + options.every}
        for name, learner in {"policy": state.learner, "average": state.steadied()}.items():
            row[name] = round(score(method, learner, data, options), 1)
        rows.append(row)
        print(*row.values(), sep="  ", flush=True)
    if options.out:
        write_csv(pathlib.Path(options.out), rows)


class Watched(eqx.Module):
    """A learner, and the moving average of its actor's numbers."""

    learner: Any  # the state of a method that has an actor
    average: Any
    step: jax.Array

    def steadied(self):
        """The learner with the average in its actor's place."""
        _, rest = eqx.partition(self.learner.actor, eqx.is_inexact_array)
        return dataclasses.replace(self.learner, actor=eqx.combine(self.average, rest))


class Watching(eqx.Module):
    """An update that also moves the average."""

    update: Any = eqx.field(static=True)
    memory: float = eqx.field(static=True)

    def __call__(self, state: Watched, log: Log, key: jax.Array):
        """As the method's own update."""
        learner, info = self.update(state.learner, log, key)
        step = state.step + 1
        rate = jnp.minimum(1.0, 1.0 / (self.memory * step))
        fresh = eqx.filter(learner.actor, eqx.is_inexact_array)
        return Watched(learner, moved(state.average, fresh, rate), step), info


def score(method: agents.Method, learner, data: ploff.Transitions, options: argparse.Namespace) -> float:
    """Of the policy that a learner has."""
    act = eqx.filter_jit(lambda observations: method.act(learner, data.observation_units.apply(observations)))
    found = ploff.evaluate(
        lambda observations: act(jnp.asarray(observations, jnp.float32)),
        options.environment,
        episodes=options.episodes,
        physics="d4rl",
    )
    return float(found.scores.mean())


if __name__ == "__main__":
    main()
