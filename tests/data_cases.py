"""Data files in D4RL's layouts, made by hand for tests, and where real ones may lie."""

import os
import pathlib
from typing import Any

import h5py
import numpy as np
import pytest

from ploff import datasets
from ploff.transitions import Transitions
from ploff.utils.errors import DataError

LAYOUTS = {  # name: what makes the layout
    "pen-human-v0": {"timeouts": False},
    "door-expert-v1": {"metadata": True},
    "hopper_medium_replay-v1": {"kind": np.float64, "successors": True, "columns": True},
    "hopper_medium-v2": {"successors": True, "metadata": True, "cut": True},
    "door-cut-v1": {"cut": True},
    "hopper_broken-v2": {"successors": True, "broken": True},
    "hopper_both-v2": {"successors": True, "both": True},
}


def make_rows(
    name: str,
    *,
    kind: type = np.float32,
    timeouts: bool = True,
    successors: bool = False,
    columns: bool = False,
    cut: bool = False,
    broken: bool = False,
    both: bool = False,
    metadata: bool = False,
) -> dict[str, np.ndarray]:
    """The arrays of a file: 260 transitions, two terminals, a timeout, and a last row that ends or is cut."""
    random, count = np.random.default_rng(len(name)), 260
    states = random.standard_normal((count, 5)).astype(kind)
    ends = np.zeros((2, count), bool)
    ends[0, [29, 180]] = True
    ends[1, [79, 180] if both else [79]] = True
    ends[1, -1] = not cut
    rows = {
        "observations": states,
        "actions": random.uniform(-1, 1, (count, 3)).astype(kind),
        "rewards": random.standard_normal(count).astype(kind),
        "terminals": ends[0],
        "infos/qpos": random.standard_normal((count, 4)),
        "infos/action_log_probs": random.standard_normal(count).astype(kind),
        "infos/deep/counter": np.arange(count),
    }
    if timeouts:
        rows["timeouts"] = ends[1]
    if successors:
        rows["next_observations"] = np.concatenate([states[1:], states[:1] + 1])
        rows["next_observations"][ends.any(axis=0)] += 0.5
    if broken:
        rows["next_observations"][[3, 100]] += 0.25
    if columns:
        rows["rewards"] = rows["rewards"][:, None]
        rows["terminals"], rows["timeouts"] = rows["terminals"].astype(kind), rows["timeouts"].astype(kind)
    if metadata:
        rows["metadata/policy/fc0/weight"] = random.standard_normal((8, 5))
    return rows


def write_hdf5(path: pathlib.Path, rows: dict[str, np.ndarray], **options) -> pathlib.Path:
    """Writes arrays as they are."""
    with h5py.File(path, "w") as file:
        for name, values in rows.items():
            file.create_dataset(name, data=values, **({"compression": "gzip"} | options))
    return path


def read_hdf5(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Every array of a file but the policy that acted."""
    found = {}

    def collect(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith("metadata/"):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(collect)
    return found


def file_with(folder: pathlib.Path, name: str = "hopper-medium-v2.hdf5", **changes: np.ndarray | None) -> pathlib.Path:
    """A sound file but for the arrays in `changes`; None leaves one out."""
    rows = make_rows("hopper", successors=True) | changes
    return write_hdf5(folder / name, {key: values for key, values in rows.items() if values is not None})


def changed(field: str, row: Any, value: float, **options: Any) -> dict[str, np.ndarray]:
    """An array of the sound file with one value changed."""
    values = make_rows("hopper", successors=True, **options)[field].copy()
    values[row] = value
    return {field: values}


def refusal(name: str | pathlib.Path, **options: Any) -> str:
    """The one line by which loading is refused."""
    with pytest.raises(DataError) as caught:
        datasets.load(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(name) in message
    return message


def counts(transitions: Transitions) -> tuple[int, int, int, int]:
    """Transitions, episodes, terminals and timeouts."""
    return (
        len(transitions),
        len(transitions.episode_ends()),
        int(transitions.terminals.sum()),
        int(transitions.timeouts.sum()),
    )


def counts_by_hand(rows: dict[str, np.ndarray], timeouts: np.ndarray | None = None) -> tuple[int, int, int, int]:
    """The same, from a file's arrays."""
    terminals = rows["terminals"].reshape(-1).astype(bool)
    timeouts = rows["timeouts"].reshape(-1).astype(bool) if timeouts is None else timeouts
    ends = terminals | timeouts
    return len(ends), int(ends.sum()) + int(not ends[-1]), int(terminals.sum()), int(timeouts.sum())


def assert_same_arrays(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    """The same names, types, shapes and bits."""
    assert sorted(a) == sorted(b)
    for name in a:
        assert (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape), name
        assert a[name].tobytes() == b[name].tobytes(), name


def shared_files() -> list[pathlib.Path]:
    """Real D4RL episodes, where somebody put them."""
    beside = pathlib.Path(__file__).parents[2] / "shared" / "data"
    folder = pathlib.Path(os.environ.get("PLOFF_SHARED_DATA", beside))
    return sorted([*folder.glob("real/*.hdf5"), *folder.glob("*.hdf5")])


needs_shared_data = pytest.mark.skipif(not shared_files(), reason="PLOFF_SHARED_DATA names no real files")
