"""Judges policies by a log alone, and holds that against what they are worth in their environment.

    python benchmarks/judging.py prepare LOG … --work FOLDER [--arrays FOLDER]      policies, and their true returns
    python benchmarks/judging.py judge LOG … --work FOLDER                          every estimator on every policy
    python benchmarks/judging.py verdicts LOG … --work FOLDER                       what is said of every policy
    python benchmarks/judging.py gate LOG …                                         false alarms, and right ones
    python benchmarks/judging.py show                                               the tables

A log is a file in D4RL's layout whose name says where it comes from. Its policies: snapshots of BC, TD3+BC, IQL and
TD3-Off that are trained on nine tenths of its episodes, noisy and damped copies, a random network, and, where
`--arrays` has them, the behavior's and an expert's networks as plain arrays and mixtures of these with BC. True returns
are over 50 episodes. The CSV files in `--out` (benchmarks/results/) are the state: what they have is not done again.
"""

import argparse
import csv
import pathlib
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

EPISODES = 50
KEPT = 0.1  # share of the episodes that no policy is trained on
SNAPSHOTS = {"bc": (300, 3_000), "td3-bc": (1_000, 4_000), "iql": (3_000,), "td3-off": (1_000, 3_000)}
METRIC_STEPS = 5_000
TRUTH, ESTIMATES, GATES = "judging_truth.csv", "judging_estimates.csv", "judging_gate.csv"
VERDICTS = "judging_verdicts.csv"


class Changed(eqx.Module):
    """A policy made of others: their weighted sum, and something that looks like noise but is a function."""

    parts: tuple
    weights: tuple[float, ...] = eqx.field(static=True)
    noise: float
    phases: jax.Array  # [S, A]
    low: jax.Array
    high: jax.Array

    def __call__(self, observations):
        """The actions."""
        x = jnp.asarray(observations, jnp.float32)
        action = sum(w * part(x) for w, part in zip(self.weights, self.parts, strict=True))
        half = (self.high - self.low) / 2
        return jnp.clip(action + self.noise * half * 1.41 * jnp.sin(997.0 * x @ self.phases), self.low, self.high)


class Network(eqx.Module):
    """A policy of plain arrays, by its mean."""

    kind: str = eqx.field(static=True)
    arrays: dict

    def __call__(self, x):
        """The actions."""
        p = self.arrays
        if self.kind == "gaussian_tanh_mlp":
            x = (x - p["in_shift"]) / (p["in_scale"] + 1e-8)
            x = jnp.tanh(jnp.tanh(x @ p["W0"].T + p["b0"]) @ p["W1"].T + p["b1"])
            return jnp.clip((x @ p["W2"].T + p["b2"]) * p["out_scale"] + p["out_shift"], -1, 1)
        x = jax.nn.relu(jax.nn.relu(x @ p["W0"].T + p["b0"]) @ p["W1"].T + p["b1"]) @ p["W2"].T + p["b2"]
        return jnp.tanh(x) if self.kind == "tanh_gaussian" else jnp.clip(x, -1, 1)


def network(path: pathlib.Path) -> Network:
    """Reads a policy of plain arrays."""
    content = dict(np.load(path))
    kind = str(content.pop("kind"))
    numbers = {k: jnp.asarray(v, jnp.float32) for k, v in content.items() if np.issubdtype(v.dtype, np.number)}
    return Network(kind, numbers)


def held_out(data) -> np.ndarray:
    """The episodes that no policy is trained on."""
    from ploff.judging.judged_log import held_out_episodes

    return held_out_episodes(data, KEPT)


def snapshots(data, work: pathlib.Path) -> dict[str, Callable]:
    """Trains the methods, and keeps policies on the way."""
    from ploff.agents import get_method
    from ploff.agents.dataset import OfflineDataset
    from ploff.agents.policy import Policy, read_policy, save_policy
    from ploff.training.loop import scan_updates

    found = {}
    kept = np.arange(len(data.episode_ends()))
    training = data.select_episodes(np.setdiff1d(kept, held_out(data)))
    for name, steps in SNAPSHOTS.items():
        method, config = get_method(name), get_method(name).config()
        scaled = training.with_scaled_rewards(getattr(config, "reward_scale", "unit")).with_normalized_observations()
        state = dataset = None
        for first, last in zip((0, *steps[:-1]), steps, strict=True):
            place = work / f"{name}-{last}.eqx"
            if not place.exists():
                dataset = dataset or OfflineDataset.of(scaled)
                state = state if state is not None else method.init(jax.random.key(0), dataset, config)
                count = last - first
                update = method.update_fn(config)
                state, _ = scan_updates(update, state, (dataset,), jax.random.key(1), jnp.asarray(first), count)
                save_policy(place, Policy.of(method, state, scaled), name, config)
            found[f"{name} {last}"] = read_policy(place)
    return found


def policies(data, task: str, work: pathlib.Path, arrays: pathlib.Path | None) -> dict[str, Callable]:
    """The policies of a log by name."""
    found = snapshots(data, work)
    space, rng = data.action_space, np.random.default_rng(0)
    low, high = jnp.asarray(space.low), jnp.asarray(space.high)
    phases = jnp.asarray(rng.normal(size=(data.observation_shape[0], space.width)), jnp.float32)
    wild = jnp.asarray(rng.normal(size=(data.observation_shape[0], space.width)), jnp.float32)
    shift, scale = data.with_normalized_observations().observation_normalizer.shift, 1.0
    scale = data.with_normalized_observations().observation_normalizer.scale

    def made(parts, weights, noise=0.0):
        return Changed(tuple(parts), tuple(weights), noise, phases, low, high)

    cloned = found[f"bc {SNAPSHOTS['bc'][-1]}"]
    random = Affine(wild, jnp.asarray(shift), jnp.asarray(scale))
    found |= {
        "bc noisy 0.3": made([cloned], [1.0], 0.3),
        "bc noisy 0.8": made([cloned], [1.0], 0.8),
        "bc damped 0.7": made([cloned], [0.7]),
        "random": random,
        "bc half random": made([cloned, random], [0.5, 0.5]),
    }
    for quality in ("medium", "cloned", "expert"):
        if arrays and (arrays / f"{task}-{quality}.npz").exists():
            found[quality] = network(arrays / f"{task}-{quality}.npz")
            found[f"bc half {quality}"] = made([cloned, found[quality]], [0.5, 0.5])
    return found


class Affine(eqx.Module):
    """tanh of a random linear map of the standardized state."""

    weight: jax.Array
    shift: jax.Array
    scale: jax.Array

    def __call__(self, x):
        """The actions."""
        return jnp.tanh((x - self.shift) / self.scale @ self.weight)


def load(path: pathlib.Path):
    """A log, and its task."""
    from ploff import datasets

    return datasets.load(path), path.name.split("-")[0]


def prepare(arguments) -> None:
    """Makes the policies and finds their true returns."""
    from ploff.environments.evaluation import evaluate

    done = {(row["log"], row["policy"]) for row in read(arguments.out / TRUTH)}
    for path in arguments.logs:
        data, task = load(path)
        work = arguments.work / path.stem
        work.mkdir(parents=True, exist_ok=True)
        for name, policy in policies(data, task, work, arguments.arrays).items():
            if (path.stem, name) in done:
                continue
            began = time.perf_counter()
            outcome = evaluate(policy, task, episodes=EPISODES, seed=7, physics="d4rl")
            row = {
                "log": path.stem,
                "policy": name,
                "true_return": outcome.mean_return,
                "true_error": float(outcome.returns.std(ddof=1) / EPISODES**0.5),
                "log_return": float(data.episode_returns().mean()),
            }
            append(arguments.out / TRUTH, row)
            print(
                f"{path.stem:28} {name:16} {row['true_return']:10.1f}  {time.perf_counter() - began:.0f} s", flush=True
            )


ESTIMATORS = {  # name here: estimator, distance
    "fqe": ("fqe", "l2"),
    "fqe on phi": ("fqe-metric", "learned"),
    "neighbors l2": ("neighbors", "l2"),
    "neighbors learned": ("neighbors", "learned"),
}


def judge(arguments) -> None:
    """Asks every estimator about every policy, and the gate about its actions."""
    done = {(row["log"], row["policy"], row["estimator"]) for row in read(arguments.out / ESTIMATES)}
    wanted = arguments.estimators or list(ESTIMATORS)
    for path in arguments.logs:
        data, task = load(path)
        made = policies(data, task, arguments.work / path.stem, arguments.arrays)
        left = [(p, e) for e in wanted for p in made if (path.stem, p, e) not in done]
        if not left:
            continue
        judges = judges_of(data, arguments.work / path.stem)
        actions = {name: judges["l2"].log.actions_of(made[name], name) for name in dict.fromkeys(p for p, _ in left)}
        for name, which in left:
            row = judged(judges[ESTIMATORS[which][1]], actions[name], ESTIMATORS[which][0])
            append(arguments.out / ESTIMATES, {"log": path.stem, "policy": name, "estimator": which, **row})
            print(f"{path.stem:28} {name:16} {which:18} {row['value']:10.1f}  {row['seconds']:.0f} s", flush=True)


def judges_of(data, work: pathlib.Path) -> dict:
    """A judge in plain L2 and one in the learned metric."""
    from ploff.judging import Judge, JudgeConfig, JudgedLog, LogDistance
    from ploff.metric.train import MetricTraining, learn_metric

    log = JudgedLog.of(data, held_out(data))
    training = MetricTraining(steps=METRIC_STEPS, check_every=METRIC_STEPS)
    learned = learn_metric(data, training=training, out=work / "metric", quiet=True)
    config = JudgeConfig(cloning_steps=0)
    return {
        "l2": Judge(log, LogDistance.l2(data), config),
        "learned": Judge(log, LogDistance.of(learned, data), config),
    }


def judged(judge, actions: np.ndarray, which: str) -> dict:
    """What one estimator says, of what it is made, and how many actions are outside."""
    from ploff.judging.support import measure_support

    offset = judge.logged_return.value - judge.of_log(which)  # once for all policies of a log
    began = time.perf_counter()
    found = judge.replicates(actions, which)
    seconds, estimate = time.perf_counter() - began, found.estimate(offset)
    support = measure_support(judge.log, judge.distance.logged, judge.others, judge.gate, actions)
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "spread": float(found.values.std(ddof=1)),
        "start_error": found.start_error,
        "if_bad": found.low,
        "if_good": found.high,
        "offset": offset,
        "outside": support.outside,
        "median_distance": float(np.median(support.policy)),
        "seconds": seconds,
    }


def verdicts(arguments) -> None:
    """Asks for the verdict on every policy, by the default in plain L2."""
    from ploff.judging import Judge, JudgeConfig, JudgedLog, LogDistance

    truth = {(row["log"], row["policy"]): row for row in read(arguments.out / TRUTH)}
    done = {(row["log"], row["policy"]) for row in read(arguments.out / VERDICTS)}
    for path in arguments.logs:
        data, task = load(path)
        made = policies(data, task, arguments.work / path.stem, arguments.arrays)
        judge = Judge(JudgedLog.of(data, held_out(data)), LogDistance.l2(data), JudgeConfig(cloning_steps=0))
        for name, policy in made.items():
            if (path.stem, name) in done:
                continue
            judgment, true = judge.of(policy, name), truth[path.stem, name]
            row = {
                "log": path.stem,
                "policy": name,
                "true_gain": float(true["true_return"]) / float(true["log_return"]) - 1,
                "advantage": judgment.advantage.value,
                "low": judgment.advantage.low,
                "high": judgment.advantage.high,
                "outside": judgment.support.outside,
                "verdict": judgment.verdict.answer,
            }
            append(arguments.out / VERDICTS, row)
            print(row, flush=True)


def gate(arguments) -> None:
    """Calibrates gates on seven tenths of the episodes, and counts alarms on the others, right ones and false ones."""
    from ploff.judging import LogDistance, calibrate_gate
    from ploff.neighbors import OnlineDataDistance

    done = {row["log"] for row in read(arguments.out / GATES)}
    for path in arguments.logs:
        if path.stem in done:
            continue
        data, _ = load(path)
        order = np.random.default_rng(0).permutation(len(data.episode_ends()))
        cut = round(0.7 * len(order))
        known, fresh = data.select_episodes(order[:cut]), data.select_episodes(order[cut:])
        distance = LogDistance.l2(known)
        made, _ = calibrate_gate(distance.logged, known, kind="l2", metric=distance.fingerprint)
        online, rng = OnlineDataDistance(distance.logged), np.random.default_rng(1)
        rows = np.arange(0, len(fresh), max(1, len(fresh) // 5_000))
        states, actions = np.asarray(fresh.observations)[rows], np.asarray(fresh.actions)[rows]
        space, stuck = fresh.action_space, np.array(states)
        stuck[:, : stuck.shape[1] // 4] = np.asarray(known.observations)[0, : stuck.shape[1] // 4]
        cases = {
            "logged": (states, actions),
            "uniform": (states, rng.uniform(space.low, space.high, actions.shape)),
            "noisy": (states, space.perturb(actions, 0.3 * rng.normal(size=actions.shape))),
            "frozen": (stuck, actions),
        }
        seen = distance.logged.data.observation_normalizer
        apart = {
            name: online.distance(seen.normalize(s.astype(np.float32)), a.astype(np.float32))
            for name, (s, a) in cases.items()
        }
        for rate in made.thresholds:
            alarms = {name: float(made.outside(found, float(rate)).mean()) for name, found in apart.items()}
            row = {"log": path.stem, "distance": "l2", "episodes": cut, "rate": float(rate), **alarms}
            append(arguments.out / GATES, row)
            print(row, flush=True)


def show(arguments) -> None:
    """Prints one row per log and estimator, and the means."""
    from scipy.stats import spearmanr

    truth = {(row["log"], row["policy"]): row for row in read(arguments.out / TRUTH)}
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in read(arguments.out / ESTIMATES):
        groups.setdefault((row["log"], row["estimator"]), []).append(row)
    print(f"{'log':28} {'estimator':18} policies  rank  regret@1 @3   error  coverage  false better  seconds")
    for (log, which), rows in groups.items():
        true = np.array([float(truth[log, row["policy"]]["true_return"]) for row in rows])
        own = float(truth[log, rows[0]["policy"]]["log_return"])
        value, low, high = (np.array([float(row[name]) for row in rows]) for name in ("value", "low", "high"))
        span, order = float(np.ptp(true)), np.argsort(-value)
        numbers = (
            float(spearmanr(value, true).statistic),
            float(true.max() - true[order[0]]) / span,
            float(true.max() - true[order[:3]].max()) / span,
            float(np.abs(value - true).mean()) / span,
            float(np.mean((low <= true) & (true <= high))),
        )
        rank, first, third, error, covered = (f"{number:6.2f}" for number in numbers)
        false = int(np.sum((low > own) & (true < own)))
        seconds = np.median([float(row["seconds"]) for row in rows])
        print(f"{log:28} {which:18} {len(rows):8} {rank} {first} {third} {error} {covered} {false:13} {seconds:8.0f}")


def read(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none if it is not there."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def append(path: pathlib.Path, row: dict) -> None:
    """Adds a row to a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def main() -> None:
    """Does one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("prepare", "judge", "verdicts", "gate", "show"))
    parser.add_argument("logs", nargs="*", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("judging"))
    parser.add_argument("--arrays", type=pathlib.Path)
    parser.add_argument("--estimators", nargs="*")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    arguments = parser.parse_args()
    {"prepare": prepare, "judge": judge, "verdicts": verdicts, "gate": gate, "show": show}[arguments.part](arguments)


if __name__ == "__main__":
    main()
