"""Minari's datasets: a folder on this disk, or a name that Minari downloads.

An episode of T steps holds T + 1 observations and, if it has infos, T + 1 rows of those. ploff's transitions
map onto it so that nothing is lost:

- Row i of an episode's infos belongs to observation i, as in D4RL. Row T has no counterpart: it is written as
  NaN (0 in arrays of integers) and left out when read.
- Where an episode's last successor is unknown, observation T is written as NaN (in integers: as observation
  T − 1). `unknown_finals` lists these episodes.
- Where some next observation is not the following observation, all of them are in the infos, as
  `next_observations`.
- An episode that ends without a flag stays without one if it is the last. Before another, its end is a
  truncation.

What Minari has no place for is JSON under the key `ploff` of the dataset's metadata.
"""

import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ploff.actions import ActionSpace
from ploff.datasets import catalog, validate
from ploff.datasets.assemble import Options, Rows, assemble, describe, read_description
from ploff.datasets.hdf5 import check_dataset, datasets_in, open_file
from ploff.datasets.limits import check_parquet
from ploff.transitions import UNKNOWN, Origin, Transitions
from ploff.utils import files
from ploff.utils.errors import DataError

NOTES_BYTES = 4096  # of HDF5, for one array of an episode

NAME = re.compile(r"^([-\w]+/)*[-\w]+-v\d+$")


def may_be_served(name: str) -> bool:
    """Whether a name without `minari:` before it can only be one of Minari's: NAMESPACE/NAME-v0."""
    return "/" in name and NAME.fullmatch(name) is not None


def root() -> pathlib.Path:
    """Where Minari keeps its datasets."""
    return pathlib.Path(os.environ.get("MINARI_DATASETS_PATH") or pathlib.Path.home() / ".minari" / "datasets")


def local() -> dict[str, pathlib.Path]:
    """The datasets on this disk, by name."""
    found = sorted(path.parent.parent for path in root().glob("**/data/metadata.json"))
    return {folder.relative_to(root()).as_posix(): folder for folder in found}


def is_dataset(folder: pathlib.Path) -> bool:
    """Whether a folder is a Minari dataset, or the `data` folder in one."""
    return any((folder / place).is_file() for place in ("data/metadata.json", "metadata.json"))


def download(name: str) -> pathlib.Path:
    """Fetches a dataset by its name, unless it is here, and returns its folder."""
    import minari

    if not is_dataset(root() / name):
        try:
            minari.download_dataset(name)
        except Exception as error:  # Minari's storages raise whatever their clients do
            raise DataError(
                f"Minari dataset {name!r} is not in {root()} and cannot be downloaded: "
                f"{type(error).__name__}: {str(error)[:200]}"
            ) from error
    return root() / name


def read(folder: pathlib.Path, options: Options) -> Transitions:
    """Reads a dataset's folder, whichever way Minari stores it."""
    import minari

    place = folder / "data" if (folder / "data").is_dir() else folder
    _check_files(place)
    try:
        dataset = minari.MinariDataset(place)
        metadata: Mapping[str, Any] = dataset.storage.metadata
        episodes = list(dataset.storage.get_episodes(dataset.episode_indices)) if len(dataset) else []
    except (ValueError, OSError, KeyError, AssertionError) as error:
        raise DataError(f"{folder} cannot be read as a Minari dataset: {error}") from error
    if not episodes:
        raise DataError(f"{folder} holds no transitions")
    notes = json.loads(metadata.get("ploff", "{}"))
    rows = _rows(str(folder), episodes, dataset.observation_space, dataset.action_space)
    if notes:
        rows.origin, rows.action_space = read_description(str(folder), metadata["ploff"])
        ends = np.cumsum([len(episode["rewards"]) for episode in episodes]) - 1
        rows.known = np.ones(len(rows.arrays["rewards"]), bool)
        rows.known[ends[notes["unknown_finals"]]] = False
        rows.next_observations = rows.infos.pop("next_observations", rows.next_observations)
    else:
        rows.origin = _origin(metadata)
    if not options.infos:
        rows.infos = {}
    return assemble(rows, options)


def _check_files(place: pathlib.Path) -> None:
    """Looks at files before Minari reads them: nothing outside of the folder, nothing larger than memory."""
    for path in sorted(place.rglob("*")):
        if path.is_symlink() and not path.resolve().is_relative_to(place.resolve()):
            raise DataError(f"{path} is a link that leads out of the dataset; put the file itself there")
        if path.suffix in (".hdf5", ".h5"):
            with open_file(path) as file:
                found = list(datasets_in(file).values())
                for dataset in found:
                    check_dataset(dataset)
                validate.refuse_larger(str(path), sum(dataset.nbytes for dataset in found))
        elif path.suffix == ".parquet":
            check_parquet(path)


def _origin(metadata: Mapping[str, Any]) -> Origin:
    spec = json.loads(metadata["env_spec"]) if metadata.get("env_spec") else {"id": None}
    environment = spec["id"]
    scores = metadata.get("ref_min_score"), metadata.get("ref_max_score")
    told = None if None in scores else (float(scores[0]), float(scores[1]))  # pyright: ignore[reportArgumentType]
    return Origin(
        name=metadata["dataset_id"],
        environment=environment,
        reference_scores=told or catalog.references_of(environment),
        options=json.dumps(_options(spec)),
    )


def _options(spec: Mapping[str, Any]) -> dict[str, Any]:
    """With what an environment was made: its own episode length, say, where its id has another by now."""
    given = {name: value for name, value in (spec.get("kwargs") or {}).items() if name != "render_mode"}
    horizon = spec.get("max_episode_steps")
    return given if horizon is None else {**given, "max_episode_steps": horizon}


def _rows(source: str, episodes: list[dict[str, Any]], states: Any, actions: Any) -> Rows:
    encoded = [encode(source, states, episode["observations"]) for episode in episodes]
    lengths = [len(episode["rewards"]) for episode in episodes]
    for number, (observations, length) in enumerate(zip(encoded, lengths, strict=True)):
        if len(observations) != length + 1:
            raise DataError(
                f"{source}: episode {number} has {len(observations)} observations for {length} steps; "
                "one more than steps is needed"
            )
    space, offset = _action_space(source, actions)
    infos = [_flat(episode.get("infos") or {}) for episode in episodes]
    shared = set.intersection(*(set(info) for info in infos))
    arrays = {
        "observations": np.concatenate([observations[:-1] for observations in encoded]),
        "actions": np.concatenate([np.asarray(episode["actions"]) for episode in episodes]),
        "rewards": np.concatenate([np.asarray(episode["rewards"]) for episode in episodes]),
        "terminals": _flags(source, "terminations", episodes),
        "timeouts": _flags(source, "truncations", episodes),
    }
    if offset:
        arrays["actions"] = arrays["actions"] - offset
    _mark_ends(source, arrays, np.cumsum(lengths) - 1)
    return Rows(
        source=source,
        arrays=arrays,
        next_observations=np.concatenate([observations[1:] for observations in encoded]),
        infos={
            name: np.concatenate([info[name][:length] for info, length in zip(infos, lengths, strict=True)])
            for name in sorted(shared)
        },
        action_space=space,
    )


def _flags(source: str, name: str, episodes: list[dict[str, Any]]) -> np.ndarray:
    return np.concatenate([validate.as_flags(source, name, np.asarray(episode[name])) for episode in episodes])


def _mark_ends(source: str, arrays: dict[str, np.ndarray], ends: np.ndarray) -> None:
    """Episodes are derived from flags: one that stops without a flag, before another, was cut."""
    unmarked = ends[:-1][~(arrays["terminals"] | arrays["timeouts"])[ends[:-1]]]
    if len(unmarked):
        arrays["timeouts"][unmarked] = True
        validate.warn(f"{source}: {len(unmarked)} episodes stop without a flag; they count as cut (timeouts)")


def encode(source: str, space: Any, values: Any) -> np.ndarray:
    """Observations as arrays: choices one-hot, dictionaries and tuples side by side in the space's order."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return np.asarray(values)
    if isinstance(space, spaces.Discrete):
        return np.eye(int(space.n), dtype=np.float32)[np.asarray(values) - int(space.start)]
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        arrays = [encode(source, part, values[key]) for key, part in parts]
        return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)
    raise DataError(f"{source}: {type(space).__name__} observations are not supported; boxes and choices are")


def _action_space(source: str, space: Any) -> tuple[ActionSpace, int]:
    """The action space, and the number of its first choice."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return ActionSpace.discrete(int(space.n)), int(space.start)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return ActionSpace.box(space.low, space.high), 0
    raise DataError(f"{source}: actions of {space} are not supported; a vector in a box or one of n choices is")


def _flat(infos: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    flat: dict[str, np.ndarray] = {}
    for name, value in infos.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}/")
        else:
            flat[f"{prefix}{name}"] = np.asarray(value)
    return flat


def name_of(folder: pathlib.Path) -> str:
    """The name that a dataset has by its folder: its place under Minari's root, or the folder's own name."""
    inside = folder.resolve().is_relative_to(root().resolve())
    name = folder.resolve().relative_to(root().resolve()).as_posix() if inside else folder.name
    if not NAME.fullmatch(name):
        raise DataError(f"{name!r} cannot be a Minari dataset's name: it must end in -v0, -v1, …")
    return name


def write(transitions: Transitions, folder: pathlib.Path) -> None:
    """Writes a dataset into a folder: built beside it, and moved there when it is whole."""
    name = name_of(folder)
    partial, replaced = files.unfinished(folder), files.unfinished(folder, "replaced")
    with files.disk_errors_named(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        restore(folder)
        files.remove_leftovers(folder.parent)
        try:
            (partial / "data").mkdir(parents=True)
            files.reserve(partial / "data" / "room", _largest_size(transitions))
            _fill(transitions, (partial / "data").absolute(), name)  # Minari stumbles over relative paths
            if folder.exists() and not files.exchange(partial, folder):
                folder.rename(replaced)
            if not folder.exists():
                partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            shutil.rmtree(replaced, ignore_errors=True)


def restore(folder: pathlib.Path) -> None:
    """Puts a dataset back whose replacement was killed, where folders cannot change places in one step."""
    if not folder.exists():
        for replaced in folder.parent.glob(f".{folder.stem}.replaced-*{folder.suffix}"):
            replaced.rename(folder)
            return


def _largest_size(transitions: Transitions) -> int:
    """Bytes that a dataset takes at most, uncompressed and with what HDF5 notes of each episode's arrays."""
    arrays = (*jax.tree.leaves(eqx.filter(transitions, eqx.is_array_like)), transitions.observations)
    episodes, names = len(transitions.episode_ends()), 8 + len(transitions.infos)
    return 2 * sum(np.asarray(array).nbytes for array in arrays) + NOTES_BYTES * episodes * names


def _fill(transitions: Transitions, place: pathlib.Path, name: str) -> None:
    import minari
    from minari.dataset.minari_storage import MinariStorage

    states = np.asarray(transitions.observations)
    ends, successors = transitions.episode_ends(), np.asarray(transitions.successors)
    metadata: dict[str, Any] = {
        "dataset_id": name,
        "minari_version": minari.__version__,
        "ploff": json.dumps(
            {
                **json.loads(describe(transitions)),
                "unknown_finals": np.flatnonzero(successors[ends] == UNKNOWN).tolist(),
            }
        ),
    }
    if transitions.origin.reference_scores:
        metadata["ref_min_score"], metadata["ref_max_score"] = transitions.origin.reference_scores
    storage = MinariStorage.new(
        place, observation_space=_state_space(states), action_space=_gym_action_space(transitions), jpeg_encoding=False
    )
    storage.update_metadata(metadata)
    storage.update_episodes(_episodes(transitions))


def _state_space(states: np.ndarray) -> Any:
    from gymnasium import spaces

    floating = np.issubdtype(states.dtype, np.floating)
    limits = (-np.inf, np.inf) if floating else (np.iinfo(states.dtype).min, np.iinfo(states.dtype).max)
    return spaces.Box(*limits, states.shape[1:], states.dtype.type)


def _gym_action_space(transitions: Transitions) -> Any:
    from gymnasium import spaces

    space = transitions.action_space
    if space.kind == "discrete":
        return spaces.Discrete(space.n)
    dtype = np.asarray(transitions.actions).dtype.type
    return spaces.Box(np.asarray(space.low, dtype), np.asarray(space.high, dtype), dtype=dtype)


def _episodes(transitions: Transitions) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    states, following = np.asarray(transitions.observations), transitions.next_observations()
    infos = {name: np.asarray(values) for name, values in transitions.infos.items()}
    successors, ends = np.asarray(transitions.successors), transitions.episode_ends()
    inside = np.ones(len(transitions), bool)
    inside[ends] = False
    if (successors != np.arange(1, len(transitions) + 1))[inside].any():
        infos["next_observations"] = following
    for start, end in zip(transitions.episode_starts(), ends, strict=True):
        rows = slice(int(start), int(end) + 1)
        yield EpisodeBuffer(
            observations=np.concatenate([states[rows], following[end : end + 1]]),  # pyright: ignore[reportArgumentType]
            actions=np.asarray(transitions.actions)[rows],  # pyright: ignore[reportArgumentType]
            rewards=np.asarray(transitions.rewards)[rows],  # pyright: ignore[reportArgumentType]
            terminations=np.asarray(transitions.terminals)[rows],  # pyright: ignore[reportArgumentType]
            truncations=np.asarray(transitions.timeouts)[rows],  # pyright: ignore[reportArgumentType]
            infos={name: _with_filling(values[rows]) for name, values in infos.items()} or None,
        )


def _with_filling(values: np.ndarray) -> np.ndarray:
    """One row more: NaN, or 0 where there is no NaN."""
    filling = np.nan if np.issubdtype(values.dtype, np.floating) else 0
    return np.concatenate([values, np.full((1, *values.shape[1:]), filling, values.dtype)])
