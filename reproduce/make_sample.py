"""Makes the sample that ploff brings along: what TD3 saw while it learned half-cheetah, every other episode of it.

    python reproduce/make_sample.py [--steps 60000] [--out src/ploff/datasets/sample.npz] [--curve curve.csv]

It begins with episodes of random actions and ends with those of a policy that runs: more and less skill, and nobody's
policy throughout, as logs often are. With --curve, the returns of the policies on the way are kept as well.
"""

import argparse
import dataclasses
import pathlib

import ploff.datasets
from ploff import environments
from ploff.agents.online import OnlineTraining, learn_online
from ploff.training.loop import write_csv
from ploff.utils.progress import console

TASK = "halfcheetah"


def main() -> None:
    """Learns, keeps every other episode, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default="src/ploff/datasets/sample.npz")
    parser.add_argument("--curve", type=pathlib.Path)
    options = parser.parse_args()
    training = OnlineTraining(steps=options.steps, seed=options.seed, snapshot_every=5_000)
    seen, curve, _, interrupted = learn_online(TASK, training)
    if interrupted:
        raise SystemExit("interrupted: nothing was written")
    if options.curve is not None:
        write_csv(options.curve, curve)
    log = seen.select_episodes(range(0, len(seen.episode_ends()), 2))
    origin = dataclasses.replace(log.origin, name="sample", reference_scores=environments.reference_scores(TASK))
    path = ploff.datasets.save(dataclasses.replace(log, origin=origin), options.out, overwrite=True)
    console.print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, {len(log):,} transitions")


if __name__ == "__main__":
    main()
