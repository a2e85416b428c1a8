"""NumPy archives: ploff's own, or anybody's with D4RL's array names.

ploff's hold the container as it is: every state once in `observations`, the rows of the successors in
`successors` (see `ploff.transitions`), further arrays as `infos/NAME`, origin and action space as JSON in
`ploff`. An archive without `successors` holds one row per transition, with or without `next_observations` and
`timeouts`.
"""

import dataclasses
import pathlib
import zipfile
from typing import Any

import numpy as np

from ploff.datasets import catalog, validate
from ploff.datasets.assemble import REQUIRED, Options, Rows, arrays_as_written, assemble, describe, read_description
from ploff.legal_actions import MASK
from ploff.schema import Feature, Schema
from ploff.transitions import UNKNOWN, Transitions
from ploff.utils.errors import DataError


def read(path: pathlib.Path, options: Options) -> Transitions:
    """Reads an archive."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            wanted = [name for name in archive.files if options.infos or _is_needed(name)]
            content = {name: archive[name] for name in wanted}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
        raise DataError(f"{path} cannot be read as an NPZ archive ({error}); is it whole?") from None
    return from_arrays(str(path), pathlib.Path(path).stem, content, options)


def _is_needed(name: str) -> bool:
    return not name.startswith("infos/") or name == f"infos/{MASK}"


def from_arrays(source: str, name: str, content: dict[str, np.ndarray], options: Options) -> Transitions:
    """Transitions from the arrays of an archive."""
    validate.check_present(source, REQUIRED, content)
    arrays = {key: content[key] for key in (*REQUIRED, "timeouts") if key in content}
    if "ploff" in content:
        origin, action_space = read_description(str(content["ploff"]))
    else:
        origin, action_space = catalog.described_by_name(name, content["actions"].shape[1:])
    rows = Rows(
        source=source,
        arrays=arrays,
        next_observations=content.get("next_observations"),
        infos={key.removeprefix("infos/"): content[key] for key in content if key.startswith("infos/")},
        origin=origin,
        action_space=action_space,
        horizon=catalog.horizon_of(origin.environment),
    )
    if "successors" in content:
        successors, states = content["successors"], arrays["observations"]
        validate.check_successors(source, successors, len(states))
        arrays["observations"] = states[: len(arrays["rewards"])]
        rows.next_observations, rows.known = states[successors], successors != UNKNOWN
    return assemble(rows, options)


def from_named_arrays(name: str, content: dict[str, Any], options: Options) -> Transitions:
    """Transitions from arrays in memory, checked as a file's are; `episodes` and `observation_names` may be there."""
    given = {key: np.asarray(values) for key, values in content.items() if values is not None}
    names, episodes = given.pop("observation_names", None), given.pop("episodes", None)
    validate.check_present(name, ("observations", "actions", "rewards"), given)
    given.setdefault("terminals", np.zeros(len(given["rewards"]), bool))
    if episodes is not None:
        ends = np.append(episodes[1:] != episodes[:-1], True)
        validate.check_shapes(name, {"rewards": given["rewards"], "episodes": episodes})
        if len(np.unique(episodes)) < ends.sum():
            raise DataError(f"{name}: the rows of an episode are not together; sort by episodes")
        cut = ends & ~np.asarray(given["terminals"], bool).reshape(-1)
        given["timeouts"] = cut | np.asarray(given.get("timeouts", cut), bool).reshape(-1)
    transitions = from_arrays(name, name, given, options)
    if names is None:
        return transitions
    if transitions.observation_shape != (len(names),):
        raise DataError(f"{name}: {len(names)} names for observations of shape {transitions.observation_shape}")
    schema = Schema(features=tuple(Feature(name=str(one)) for one in names))
    return dataclasses.replace(transitions, origin=dataclasses.replace(transitions.origin, schema=schema))


def write(transitions: Transitions, path: pathlib.Path) -> None:
    """Writes the container as it is, compressed."""
    arrays = arrays_as_written(transitions)
    arrays["observations"] = np.asarray(transitions.observations)
    arrays["successors"] = np.asarray(transitions.successors)
    arrays["ploff"] = np.asarray(describe(transitions))
    arrays |= {f"infos/{name}": np.asarray(values) for name, values in transitions.infos.items()}
    np.savez_compressed(path, **arrays)  # pyright: ignore[reportArgumentType]
