"""NumPy archives: ploff's own, or anybody's with D4RL's array names.

ploff's hold the container as it is: every state once in `observations`, the rows of the successors in
`successors` (see `ploff.transitions`), further arrays as `infos/NAME`, origin and action space as JSON in
`ploff`. An archive without `successors` holds one row per transition, with or without `next_observations` and
`timeouts`.
"""

import pathlib
import zipfile

import numpy as np

from ploff.datasets import catalog, validate
from ploff.datasets.assemble import REQUIRED, Options, Rows, arrays_as_written, assemble, describe, read_description
from ploff.transitions import UNKNOWN, Transitions
from ploff.utils.errors import DataError


def read(path: pathlib.Path, options: Options) -> Transitions:
    """Reads an archive."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            wanted = [name for name in archive.files if options.infos or not name.startswith("infos/")]
            content = {name: archive[name] for name in wanted}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
        raise DataError(f"{path} cannot be read as an NPZ archive ({error}); is it whole?") from None
    return from_arrays(str(path), pathlib.Path(path).stem, content, options)


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


def write(transitions: Transitions, path: pathlib.Path) -> None:
    """Writes the container as it is, compressed."""
    arrays = arrays_as_written(transitions)
    arrays["observations"] = np.asarray(transitions.observations)
    arrays["successors"] = np.asarray(transitions.successors)
    arrays["ploff"] = np.asarray(describe(transitions))
    arrays |= {f"infos/{name}": np.asarray(values) for name, values in transitions.infos.items()}
    np.savez_compressed(path, **arrays)  # pyright: ignore[reportArgumentType]
