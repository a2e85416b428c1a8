"""NumPy archives: ploff's own, or anybody's with D4RL's array names.

ploff's hold the container as it is: every state once in `observations`, the rows of the successors in
`successors` (see `ploff.transitions`), further arrays as `infos/NAME`, origin and action space as JSON in
`ploff`. An archive without `successors` holds one row per transition, with or without `next_observations` and
`timeouts`.
"""

import dataclasses
import math
import pathlib
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from ploff.datasets import catalog, validate
from ploff.datasets.assemble import (
    FIELDS,
    REQUIRED,
    Options,
    Rows,
    arrays_as_written,
    assemble,
    describe,
    read_description,
)
from ploff.legal_actions import MASK
from ploff.schema import Feature, Schema
from ploff.transitions import UNKNOWN, Transitions
from ploff.utils.errors import DataError, PloffError

READ = (*FIELDS, "successors", "ploff", f"infos/{MASK}")


def read(path: pathlib.Path, options: Options) -> Transitions:
    """Reads an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            wanted = _wanted(str(path), archive, options)
        with np.load(path, allow_pickle=False) as archive:
            content = {name: archive[name] for name in wanted}
            validate.check_present(str(path), REQUIRED, content, archive.files)
    except PloffError:
        raise
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, RuntimeError, LookupError) as error:
        raise DataError(f"{path} cannot be read as an NPZ archive ({error}); is it whole?") from None
    return from_arrays(str(path), pathlib.Path(path).stem, content, options)


def _wanted(source: str, archive: zipfile.ZipFile, options: Options) -> list[str]:
    """The arrays that are to be read; each once, as large as it says, and together no larger than memory."""
    members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    names = [member.filename.removesuffix(".npy") for member in members]
    wanted = {name: member for name, member in zip(names, members, strict=True) if _is_read(name, options)}
    for name, member in wanted.items():
        if names.count(name) > 1:
            raise DataError(f"{source} holds {name} twice; which one counts? write it again")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{source}: {name} is compressed otherwise than NumPy does; write it again with np.savez")
    validate.refuse_larger(source, sum(member.file_size for member in wanted.values()))
    for name, member in wanted.items():
        with archive.open(member) as file:
            declared, start = _declared_bytes(file), file.tell()
        if declared != member.file_size - start:
            raise DataError(f"{source}: {name} declares {declared:,} bytes and holds {member.file_size - start:,}")
    return list(wanted)


def _is_read(name: str, options: Options) -> bool:
    return name in READ or (options.infos and name.startswith("infos/"))


def _declared_bytes(file: IO[bytes]) -> int:
    """How large the array is that an NPY file begins to describe."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"an array of NPY's version {version}")
    shape, _, dtype = read[version](file)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they would run what is in them")
    return dtype.itemsize * math.prod(shape)


def from_arrays(source: str, name: str, content: dict[str, np.ndarray], options: Options) -> Transitions:
    """Transitions from the arrays of an archive."""
    validate.check_present(source, REQUIRED, content)
    arrays = {key: content[key] for key in (*REQUIRED, "timeouts") if key in content}
    if "ploff" in content:
        origin, action_space = read_description(source, str(content["ploff"]))
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
