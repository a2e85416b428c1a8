"""Discrete methods on logs of poor, mixed and good behavior.

    python benchmarks/discrete.py                            # CartPole and Acrobot: returns by log, method and seed
    python benchmarks/discrete.py --environments CartPole-v1 --methods bc,ploff-l2,td3-off --seeds 1 --steps 5000

The behavior is a controller by hand whose actions are replaced by uniform ones with a probability: 0.9 is poor, 0.1
good; a mixed log has both in halves. One setting for all.
"""

import argparse
import csv
import pathlib
import tempfile

import numpy as np

import ploff
from ploff.environments.collection import collect
from ploff.transitions import Transitions

CONTROLLERS = {  # by hand, from observations to actions
    "CartPole-v1": lambda o: (o[:, 2] + 0.5 * o[:, 3] + 0.05 * o[:, 0] + 0.1 * o[:, 1] > 0).astype(int),
    "Acrobot-v1": lambda o: np.where(o[:, 4] > 0, 2, 0),
}
CHOICES = {"CartPole-v1": 2, "Acrobot-v1": 3}
NOISE = {"poor": (0.9,), "mixed": (0.9, 0.1), "good": (0.1,)}
METHODS = "bc,td3-off,ploff-l2,cql,bcq,iql"


def behavior(name: str, noise: float, seed: int):
    """The controller with noise."""
    controller, random = CONTROLLERS[name], np.random.default_rng(seed)

    def act(observations):
        chosen = controller(np.asarray(observations))
        uniform = random.integers(0, CHOICES[name], len(chosen))
        return np.where(random.uniform(size=len(chosen)) < noise, uniform, chosen)

    return act


def make_log(name: str, kind: str, count: int) -> Transitions:
    """A log of one kind; of a mixed one, half from each behavior."""
    parts = [
        collect(name, policy=behavior(name, noise, seed), transitions=count // len(NOISE[kind]), seed=seed)
        for seed, noise in enumerate(NOISE[kind])
    ]
    rows = {
        field: np.concatenate([np.asarray(getattr(part, field))[: len(part)] for part in parts])
        for field in ("observations", "actions", "rewards", "terminals", "timeouts")
    }
    following = np.concatenate([part.next_observations() for part in parts])
    lasts = np.cumsum([len(part) for part in parts]) - 1
    rows["timeouts"][lasts] |= ~rows["terminals"][lasts]
    first = parts[0]
    return Transitions.from_rows(
        **rows, next_observations=following, action_space=first.action_space, origin=first.origin
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", default=",".join(CONTROLLERS))
    parser.add_argument("--logs", default=",".join(NOISE))
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--transitions", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, help="a CSV file, one row per environment, log, method and seed")
    given = parser.parse_args()
    rows = []
    for name in given.environments.split(","):
        for kind in given.logs.split(","):
            log = make_log(name, kind, given.transitions)
            mean = float(log.episode_returns().mean())
            print(f"{name} {kind}: {len(log):,} transitions, mean return {mean:.1f}", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                runs = ploff.compare(
                    log, given.methods.split(","), out=folder, seeds=given.seeds, steps=given.steps,
                    evaluate_every=given.steps, episodes=20, quiet=True,
                )  # fmt: skip
                for run in runs:
                    print(f"  {run.method:20s} {', '.join(f'{value:.1f}' for value in run.returns)}", flush=True)
                    rows += [(name, kind, mean, run.method, seed, value) for seed, value in enumerate(run.returns)]
    if given.out is not None:
        with open(given.out, "w", newline="") as file:
            csv.writer(file).writerows([("environment", "log", "log_return", "method", "seed", "return"), *rows])


if __name__ == "__main__":
    main()
