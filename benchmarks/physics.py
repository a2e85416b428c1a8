"""Checks an environment's physics step by step against logged data: does it reproduce what was logged?

    python benchmarks/physics.py FOLDER [RESULTS.csv]      # of D4RL's *.hdf5 files, with infos/qpos and infos/qvel

For every logged transition whose state and next observation are known: set the logged state, apply the logged action,
and compare the next observation (in units of each dimension's standard deviation) and the reward with what
was logged.
"""

import csv
import pathlib
import re
import sys
from typing import Any

import h5py
import numpy as np

from ploff import environments

BESIDES = {"door": ["door_body_pos"], "pen": ["desired_orien"]}  # what a state holds beside qpos and qvel


COLUMNS = ("file", "physics", "rows", "observation median", "observation 95%", "reward median", "reward 95%")


def main(folder: str, results: str | None = None) -> None:
    table: list[tuple[str, ...]] = [COLUMNS]
    print(("{:32}{:>10}{:>6}" + "{:>20}" * 4).format(*COLUMNS))
    for path in sorted(pathlib.Path(folder).glob("*.hdf5")):
        task = re.split("[-_]", path.stem)[0]
        log = read_log(path, task) if task in environments.names() else None
        for physics in ("gymnasium", "d4rl"):
            observation, reward = one_step_errors(log, task, physics) if log else (np.empty(0), np.empty(0))
            if len(reward):
                errors = [f"{f(x):.1e}" for x in (observation, reward) for f in (np.median, upper)]
                table.append((path.stem, physics, str(len(reward)), *errors))
                print(("{:32}{:>10}{:>6}" + "{:>20}" * 4).format(*table[-1]))
        if table[-1][0] != path.stem:
            print(f"{path.stem:32}holds no state that fits its observations")
    if results is not None:
        with open(results, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


def read_log(path: pathlib.Path, task: str) -> dict[str, np.ndarray] | None:
    """Reads the arrays that the check needs, one row per transition; None where some are missing."""
    infos = [f"infos/{info}" for info in ["qpos", "qvel", *BESIDES.get(task, [])]]
    needed = ["observations", "actions", "rewards", "terminals", "timeouts", *infos]
    with h5py.File(path) as file:
        if any(key not in file for key in needed):
            return None
        log: dict[str, Any] = {key: np.asarray(file[key]) for key in needed}
        if "next_observations" in file:
            log["next_observations"] = np.asarray(file["next_observations"])
    if "next_observations" not in log:
        log["next_observations"] = np.roll(log["observations"], -1, axis=0)
    return log


def one_step_errors(
    log: dict[str, np.ndarray], task: str, physics: environments.Physics, limit: int = 1000
) -> tuple[np.ndarray, np.ndarray]:
    """Computes |Δobservation|/std [R, O] and |Δreward| [R] of the first R rows that can be compared."""
    ended = (log["terminals"].astype(bool) | log["timeouts"].astype(bool)).ravel()
    ended[-1] = True
    std = np.maximum(log["observations"].std(axis=0), 1e-6)
    clipped = np.abs(log["infos/qvel"]).max(axis=1) == 10.0
    env = environments.make(task, physics)
    env.reset(seed=0)
    base: Any = env.unwrapped
    observation_errors, reward_errors = [], []
    for row in np.flatnonzero(~ended & ~clipped)[:limit]:
        set_state(base, task, {key: log[key][row] for key in log if key.startswith("infos/")})
        if np.median(np.abs(base._get_obs() - log["observations"][row]) / std) > 1e-3:
            continue
        observation, reward, *_ = env.step(log["actions"][row])
        observation_errors.append(np.abs(observation - log["next_observations"][row]) / std)
        reward_errors.append(abs(float(reward) - float(log["rewards"].ravel()[row])))
    env.close()
    return np.array(observation_errors), np.array(reward_errors)


def upper(values: np.ndarray) -> float:
    """The 95th percentile."""
    return float(np.percentile(values, 95))


def set_state(base: Any, task: str, state: dict[str, np.ndarray]) -> None:
    """Puts a MuJoCo environment into a logged state."""
    if task == "door":
        base.model.body_pos[base.door_body_id] = state["infos/door_body_pos"]
    if task == "pen":
        base.model.body_quat[base.target_obj_body_id] = state["infos/desired_orien"]
    base.set_state(state["infos/qpos"].astype(np.float64), state["infos/qvel"].astype(np.float64))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
