"""D4RL's HDF5 layout, in all its versions.

One row per transition in `observations`, `actions`, `rewards`, `terminals`; since v1 also `timeouts`; in the
locomotion files `next_observations`; further arrays under `infos/`; the policy that acted under `metadata/`,
which is not read. A file without `timeouts` was cut at its task's horizon, counted since the last end.

ploff's own files add the attribute `ploff` (origin and action space), and, where only some of the successors
are known, the array `next_observations_known`.
"""

import pathlib

import h5py
import numpy as np

from ploff.actions import ActionSpace
from ploff.datasets import catalog, validate
from ploff.datasets.assemble import (
    FIELDS,
    REQUIRED,
    Options,
    Rows,
    arrays_as_written,
    assemble,
    describe,
    next_observations_if_needed,
    read_description,
)
from ploff.datasets.hdf5 import StoredRows, datasets_in, open_file
from ploff.transitions import Origin, Transitions
from ploff.utils.errors import DataError

CHUNK_BYTES = 262_144
READ = (*FIELDS, "next_observations_known")


def read(path: pathlib.Path, options: Options) -> Transitions:
    """Reads a file of any of the layouts."""
    with open_file(path) as file:
        if "episode_0" in file:
            raise DataError(f"{path} is the inside of a Minari dataset; give the dataset's folder or its name")
        stored = {name: StoredRows(item) for name, item in datasets_in(file, list(READ)).items()}
        validate.check_present(str(path), REQUIRED, stored, list(file))
        validate.refuse_larger(str(path), sum(rows.nbytes for rows in stored.values()))
        known = stored.get("next_observations_known")
        origin, action_space = _metadata(file, path, stored["actions"].shape[1:])
        return assemble(
            Rows(
                source=str(path),
                arrays={name: stored[name].read() for name in (*REQUIRED, "timeouts") if name in stored},
                next_observations=stored.get("next_observations"),
                known=known.read() if known else None,
                infos=_infos(file) if options.infos else {},
                action_space=action_space,
                origin=origin,
                horizon=catalog.horizon_of(origin.environment),
            ),
            options,
        )


def _metadata(file: h5py.File, path: pathlib.Path, action_shape: tuple[int, ...]) -> tuple[Origin, ActionSpace | None]:
    """What the attributes say, else what the file's name does."""
    if "ploff" in file.attrs:
        return read_description(str(path), str(file.attrs["ploff"]))
    return catalog.described_by_name(str(file.attrs.get("name", path.stem)), action_shape)


def _infos(file: h5py.File) -> dict[str, np.ndarray]:
    if "infos" not in file or isinstance(file.get("infos", getlink=True), h5py.ExternalLink):
        return {}
    return {name: StoredRows(item).read() for name, item in datasets_in(file["infos"]).items()}  # pyright: ignore[reportArgumentType]


def write(transitions: Transitions, path: pathlib.Path) -> None:
    """Writes D4RL's newest layout; `next_observations` only where they tell more than the rows do."""
    arrays = arrays_as_written(transitions)
    successors, known = next_observations_if_needed(transitions)
    if successors is not None:
        arrays["next_observations"] = successors.reshape(arrays["observations"].shape)
    if known is not None:
        arrays["next_observations_known"] = known
    arrays |= {f"infos/{name}": np.asarray(values) for name, values in transitions.infos.items()}
    # In memory first: the HDF5 library does not survive a disk that is full.
    with h5py.File(path, "w", driver="core", backing_store=False) as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, chunks=_chunks(values), compression="gzip", compression_opts=1)
        file.attrs["name"] = transitions.origin.name
        file.attrs["ploff"] = describe(transitions)
        file.flush()
        path.write_bytes(file.id.get_file_image())


def _chunks(values: np.ndarray) -> tuple[int, ...]:
    """Whole rows, some hundred kilobytes of them: quick to read in order."""
    row_bytes = max(values[:1].nbytes, 1)
    return (max(1, min(len(values), CHUNK_BYTES // row_bytes)), *values.shape[1:])
