"""How exact must a policy be? Its score with errors of a given size added to its actions.

    ploff train DATASET --method bc --out RUN
    python benchmarks/precision.py RUN DATASET [--sizes 0.1 0.15 0.2 0.3] [--draws 4]
        [--csv benchmarks/results/precision.csv]

Sizes are roots of mean squares, in units of half an action's range. Errors are of two kinds, since those of one step
may undo those of another:

    fleeting:  normal noise, drawn anew at every step
    lasting:   a function of the state, that of a random network; another one in each of the draws

Each draw is tried in ten episodes, the same ones for all.
"""

import argparse
import pathlib
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

import ploff
from ploff.agents.actor_critic import Body, Layers
from ploff.training import write_csv

HIDDEN = Layers((64, 64))
Error = Callable[[np.ndarray], np.ndarray]  # observations to errors of size 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("dataset", type=pathlib.Path)
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.1, 0.15, 0.2, 0.3])
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    policy, data = ploff.load_policy(options.run), ploff.load(options.dataset)
    environment = options.dataset.stem.split("-")[0]
    low, high = (np.asarray(bound) for bound in (data.action_space.low, data.action_space.high))
    rows = []
    for kind, errors in {"none": [no_error], "fleeting": fleeting(data), "lasting": lasting(data)}.items():
        drawn = [error for error, _ in zip(errors, range(options.draws), strict=False)]
        for size in [0.0] if kind == "none" else options.sizes:
            scores = []
            for error in drawn:

                def erring(observations: np.ndarray, error: Error = error, size: float = size) -> np.ndarray:
                    moved = size * error(observations) * (high - low) / 2
                    return np.clip(np.asarray(policy(observations)) + moved, low, high)

                tried = ploff.evaluate(erring, environment, episodes=10, seed=0, physics="d4rl")
                scores.append(round(tried.mean_score, 1))
            rows.append({"errors": kind, "size": size, "mean": round(np.mean(scores), 1), "draws": scores})
            print("{errors:>8} {size:.2f}: {mean:6.1f}   of {draws}".format(**rows[-1]), flush=True)
    if options.csv:
        write_csv(options.csv, [{**row, "draws": " ".join(map(str, row["draws"]))} for row in rows])


def no_error(observations: np.ndarray) -> np.ndarray:
    return np.zeros(())


def fleeting(data: ploff.Transitions) -> Iterator[Error]:
    """Normal noise."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        yield lambda observations, rng=rng: rng.normal(size=(len(observations), data.action_space.width))


def lasting(data: ploff.Transitions) -> Iterator[Error]:
    """Random networks over standardised observations, with a mean of 0 and a size of 1 in the log's states."""
    states = np.asarray(data.observations)[: len(data)]
    mean, deviation = states.mean(axis=0), states.std(axis=0)
    for seed in range(100):
        network = Body.init(jax.random.key(seed), states.shape[1], HIDDEN, data.action_space.width)
        output = jax.jit(lambda x, network=network: network(jnp.asarray((x - mean) / deviation, jnp.float32)))
        usual = output(states)
        middle, size = jnp.mean(usual, axis=0), jnp.std(usual)
        yield lambda x, output=output, middle=middle, size=size: np.asarray((output(x) - middle) / size)


if __name__ == "__main__":
    main()
