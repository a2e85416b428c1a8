"""Trains another library on the same log: is a method's score ours, or the log's and the budget's?

    pip install torch==2.13.0 d3rlpy==2.8.1
    python benchmarks/independent.py DATASET --methods iql,cql [--seeds 0 1] [--steps 50000] [--gap-batch-size 32]
        --record benchmarks/results/independent.csv

d3rlpy's own losses, networks (relu, its initial weights) and optimizers learn from the transitions that `ploff.load`
reads, with the settings that `docs/explanation/methods.md` names. Its policies are evaluated where ours are: ten
episodes every 5,000 steps, the same ones each time (ours get others each time). What the record holds is not run again.
d3rlpy asks for an older gymnasium than ploff does; both work with ploff's.
"""

import argparse
import pathlib
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.algos.qlearning.torch import cql_impl
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.preprocessing import ReturnBasedRewardScaler, StandardObservationScaler

import ploff
from scores import Record

THREE = VectorEncoderFactory([256, 256, 256])
METHODS: dict[str, Any] = {
    "bc": lambda scaled: d3rlpy.algos.BCConfig(learning_rate=3e-4, batch_size=256, observation_scaler=scaled),
    "td3-bc": lambda scaled: d3rlpy.algos.TD3PlusBCConfig(observation_scaler=scaled),
    "iql": lambda scaled: d3rlpy.algos.IQLConfig(
        observation_scaler=scaled, reward_scaler=ReturnBasedRewardScaler(multiplier=1000.0)
    ),
    # α = 5 without Lagrange. There is no imitation at the start, and the target's action is the policy's mean.
    "cql": lambda scaled: d3rlpy.algos.CQLConfig(
        observation_scaler=scaled,
        alpha_learning_rate=0.0,
        actor_encoder_factory=THREE,
        critic_encoder_factory=THREE,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=pathlib.Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--evaluate-every", type=int, default=5_000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--gap-batch-size", type=int, help="states of a batch with CQL's gap")
    parser.add_argument("--record", type=pathlib.Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.gap_batch_size:
        limit_gap_to(options.gap_batch_size)
    task, record = options.dataset.stem, Record(options.record)
    for method in options.methods.split(","):
        settings = f"gap_batch_size={options.gap_batch_size}" if method == "cql" and options.gap_batch_size else ""
        for seed in options.seeds:
            if seed in record.scores(task, method, settings, options.steps):
                continue
            run = {"task": task, "method": method, "seed": seed}
            record.put(run | row | {"settings": settings} for row in train(method, seed, options))


def train(method: str, seed: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains one seed; gives one row per evaluation."""
    d3rlpy.seed(seed)
    data = ploff.load(options.dataset)
    log = d3rlpy.dataset.MDPDataset(
        *(np.asarray(x) for x in (data.observations, data.actions, data.rewards[:, None])),
        terminals=np.asarray(data.terminals, np.float32),
        timeouts=np.asarray(data.timeouts, np.float32),
        action_space=d3rlpy.ActionSpace.CONTINUOUS,
    )
    algorithm = METHODS[method](StandardObservationScaler()).create(device="cpu")
    rows = []
    for epoch, _ in algorithm.fitter(
        log,
        n_steps=options.steps,
        n_steps_per_epoch=options.evaluate_every,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
    ):
        found = ploff.evaluate(
            lambda observations: algorithm.predict(np.asarray(observations, np.float32)),
            options.dataset.stem.split("-")[0],
            episodes=options.episodes,
            seed=seed,
            physics="d4rl",
        )
        row = {"step": epoch * options.evaluate_every, "score": round(found.mean_score, 2)}
        print(options.dataset.stem, method, seed, row, flush=True)
        rows.append(row)
    return rows


def limit_gap_to(states: int) -> None:
    """Gives d3rlpy's own gap only so many states of a batch, as ours has it: all of them take 200 ms per step."""
    whole = cql_impl.CQLImpl._compute_conservative_loss

    def part(self: Any, **given: Any) -> torch.Tensor:
        return whole(self, **{name: rows[:states] for name, rows in given.items()})

    cql_impl.CQLImpl._compute_conservative_loss = part


if __name__ == "__main__":
    main()
