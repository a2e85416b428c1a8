"""Structures broken in every way, for `faults.py`: fields of every format, and what ploff and Minari note."""

import io
import json
import pathlib
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np

FIELDS = ("observations", "actions", "rewards", "terminals", "timeouts")
Values = np.ndarray
Case = tuple[str, str, Callable[[pathlib.Path], None]]

# What can be wrong with an array, whatever holds it.
ARRAYS: dict[str, Callable[[Values], Values]] = {
    "short": lambda values: values[:-1],
    "long": lambda values: np.concatenate([values, values[:1]]),
    "empty": lambda values: values[:0],
    "scalar": lambda values: np.asarray(1.0),
    "deep": lambda values: values.reshape(len(values), -1, 1, 1),
    "wide": lambda values: np.stack([values.reshape(len(values), -1)[:, 0]] * 9, axis=1),
    "complex": lambda values: values + 1j,
    "text": lambda values: np.full(values.shape, b"left"),
    "times": lambda values: np.full(values.shape, 7, "m8[s]").astype("i8").view("i8") * (1 << 62),
    "records": lambda values: np.zeros(len(values), [("a", "f4"), ("b", "i4")]),
    "nan": lambda values: _with(values, np.nan),
    "infinite": lambda values: _with(values, -np.inf),
    "huge": lambda values: _with(values, 1e300),
    "large": lambda values: _with(values, 1e37),
    "fives": lambda values: np.full(values.shape, 5),
    "negative": lambda values: np.full(values.shape, -1, "i2"),
    "half": lambda values: np.full(values.shape, 0.5),
}
TEXTS = ("", "{", "[]", "null", '"a"', "1e999", "\x00", "{" * 500)
NOTES: dict[tuple[str, str], tuple[Any, ...]] = {  # of ploff's own: wrong values by field
    ("origin", "name"): (None, 3, [], {}),
    ("origin", "environment"): (3, [], {}, "no-such:Env-v0", "../../x"),
    ("origin", "physics"): (None, "moon", 3, [], ""),
    ("origin", "reference_scores"): ([0, 0], [5, 1], [1], "ab", 7, [None, 1], ["nan", 1], {}),
    ("origin", "options"): (None, "[", "[1]", 3, {}, "7", '{"xml_file": "/etc/passwd"}'),
    ("origin", "written_as"): ([["rewards", "O", 1]], [["rewards", "zz", 1]], [["x", "f4", 1]], 7, [[1]], "ab"),
    ("action_space", "kind"): (None, "ball", 3, "discrete"),
    ("action_space", "low"): (None, 3, [], ["a"], [9] * 6, ["nan"] * 6, [-1]),
    ("action_space", "high"): (None, 3, [], ["a"], [-9] * 6, ["nan"] * 6, [1]),
    ("action_space", "n"): (None, -1, "a", []),
}
MINARI = ("total_episodes", "total_steps", "observation_space", "action_space", "data_format", "dataset_id", "env_spec",
          "ref_min_score", "ref_max_score", "ploff", "minari_version")  # fmt: skip
MINARI_VALUES = (None, 3, -1, "x", [], {}, "{", 1e300)


def cases() -> Iterator[Case]:
    """Every structural fault."""
    for field in FIELDS:
        for fault, change in ARRAYS.items():
            yield "plain.hdf5", f"{field} {fault}", _in_hdf5(field, change)
            yield "a.hdf5", f"{field} {fault}", _in_hdf5(field, change)
            yield "a.npz", f"{field} {fault}", _in_npz(field, lambda values, change=change: _as_npy(change(values)))
            yield "walk-v0", f"{field} {fault}", _in_minari(field, change)
        for fault, replace in LINKS.items():
            yield "plain.hdf5", f"{field} {fault}", _replaced_in_hdf5(field, replace)
        for number, content in enumerate((b"", b"\x93NUMPY", b"PK\x03\x04", b"{}" * 60)):
            yield "a.npz", f"{field} bytes {number}", _in_npz(field, lambda _, content=content: content)
        yield "a.npz", f"{field} twice", _twice_in_npz(field)
        yield "a.npz", f"{field} pickled", _in_npz(field, lambda values: _as_npy(values.astype(object)))
    yield from _notes()
    yield from _tables()
    for field in MINARI:
        for value in MINARI_VALUES:
            yield "walk-v0", f"metadata {field}", _in_metadata({field: value})


def _with(values: Values, value: float) -> Values:
    changed = np.array(values, np.float64)
    changed.reshape(-1)[3 % changed.size] = value
    return changed


# HDF5.


def _in_hdf5(field: str, change: Callable[[Values], Values]) -> Callable[[pathlib.Path], None]:
    return _replaced_in_hdf5(field, lambda file, values, name: file.__setitem__(name, change(values)))


def _replaced_in_hdf5(field: str, replace: Callable[[Any, Values, str], None]) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        with h5py.File(path, "a") as file:
            values = file[field][()]
            del file[field]
            replace(file, values, field)

    return damage


def _virtual(file: Any, values: Values, name: str) -> None:
    layout = h5py.VirtualLayout(values.shape, values.dtype)
    layout[:] = h5py.VirtualSource("missing.hdf5", name, values.shape)
    file.create_virtual_dataset(name, layout)


LINKS: dict[str, Callable[[Any, Values, str], None]] = {
    "absent": (lambda file, values, name: None),
    "group": (lambda file, values, name: file.create_group(name)),
    "dangling": (lambda file, values, name: file.__setitem__(name, h5py.SoftLink("/nowhere"))),
    "circle": (lambda file, values, name: file.__setitem__(name, h5py.SoftLink(f"/{name}"))),
    "elsewhere": (lambda file, values, name: file.__setitem__(name, h5py.ExternalLink("/etc/passwd", "/"))),
    "virtual": _virtual,
    "unwritten": (lambda file, values, name: file.create_dataset(name, values.shape, values.dtype)),
    "sparse": (lambda file, values, name: file.create_dataset(name, values.shape, values.dtype, chunks=True)),
    "vast": (lambda file, values, name: file.create_dataset(name, (10**12, *values.shape[1:]), "f8", chunks=True)),
    "type": (lambda file, values, name: file.__setitem__(name, np.dtype("f4"))),
    "strings": (lambda file, values, name: file.create_dataset(name, data=["a"] * len(values))),
    "nothing": (lambda file, values, name: file.create_dataset(name, dtype="f4")),
    "external": (
        lambda file, values, name: file.create_dataset(
            name, values.shape, values.dtype, external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)]
        )
    ),
}


# Archives.


def _as_npy(values: Values) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, values, allow_pickle=True)
    return content.getvalue()


def _members(path: pathlib.Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _write_members(path: pathlib.Path, members: list[tuple[str, bytes]]) -> None:
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there twice, as is meant
        for name, content in members:
            archive.writestr(name, content)


def _in_npz(field: str, change: Callable[[Values], bytes]) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        members = _members(path)
        values = np.lib.format.read_array(io.BytesIO(members[f"{field}.npy"]))
        _write_members(path, [*{**members, f"{field}.npy": change(values)}.items()])

    return damage


def _twice_in_npz(field: str) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        members = _members(path)
        _write_members(path, [*members.items(), (f"{field}.npy", members[f"{field}.npy"])])

    return damage


# Minari.


def _in_minari(field: str, change: Callable[[Values], Values]) -> Callable[[pathlib.Path], None]:
    names = {"terminals": "terminations", "timeouts": "truncations"}

    def damage(folder: pathlib.Path) -> None:
        (path,) = folder.rglob("*.hdf5")
        with h5py.File(path, "a") as file:
            values, name = file["episode_1"][names.get(field, field)][()], names.get(field, field)
            del file["episode_1"][name]
            file["episode_1"][name] = change(values)

    return damage


def _in_metadata(changes: dict[str, Any]) -> Callable[[pathlib.Path], None]:
    def damage(folder: pathlib.Path) -> None:
        path = folder / "data" / "metadata.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return damage


# Ploff's notes.


def _notes() -> Iterator[Case]:
    for (part, field), values in NOTES.items():
        for value in values:
            yield "a.hdf5", f"{part}.{field}", _noted_in_hdf5(_changed_note(part, field, value))
            yield "a.npz", f"{part}.{field}", _noted_in_npz(_changed_note(part, field, value))
            yield "walk-v0", f"{part}.{field}", _noted_in_minari(_changed_note(part, field, value))
    for text in TEXTS:
        yield "a.hdf5", "notes", _noted_in_hdf5(lambda _, text=text: text.replace("\x00", "?"))
        yield "a.npz", "notes", _noted_in_npz(lambda _, text=text: text)
        yield "walk-v0", "notes", _noted_in_minari(lambda _, text=text: text)


def _changed_note(part: str, field: str, value: Any) -> Callable[[str], str]:
    def change(text: str) -> str:
        content = json.loads(text)
        content[part][field] = value
        return json.dumps(content)

    return change


def _noted_in_hdf5(change: Callable[[str], str]) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        with h5py.File(path, "a") as file:
            file.attrs["ploff"] = change(str(file.attrs["ploff"]))

    return damage


def _noted_in_npz(change: Callable[[str], str]) -> Callable[[pathlib.Path], None]:
    return _in_npz("ploff", lambda values: _as_npy(np.asarray(change(str(values)))))


def _noted_in_minari(change: Callable[[str], str]) -> Callable[[pathlib.Path], None]:
    def damage(folder: pathlib.Path) -> None:
        path = folder / "data" / "metadata.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "ploff": change(content["ploff"])}))

    return damage


# Tables.


def _tables() -> Iterator[Case]:
    import pyarrow as pa

    columns: dict[str, Callable[[int], Any]] = {
        "text": lambda n: pa.array(["high"] * n),
        "dates": lambda n: pa.array([0] * n, pa.date32()),
        "times": lambda n: pa.array([0] * n, pa.timestamp("s")),
        "bytes": lambda n: pa.array([b"\xff"] * n),
        "nulls": lambda n: pa.nulls(n),
        "some nulls": lambda n: pa.array([None, *[1.0] * (n - 1)]),
        "ragged": lambda n: pa.array([[1.0] * (1 + i % 3) for i in range(n)]),
        "records": lambda n: pa.array([{"a": 1.0}] * n),
        "nan": lambda n: pa.array([float("nan")] * n),
        "huge": lambda n: pa.array([1e300] * n),
        "decimals": lambda n: pa.array([1] * n).cast(pa.decimal128(20, 0)),
        "words": lambda n: pa.array(["a"] * n).dictionary_encode(),
    }
    names = ("observation_3", "action_2", "reward", "terminal", "timeout", "episode")
    for name in names:
        for fault, make in columns.items():
            yield "a.parquet", f"{name} {fault}", _in_parquet(name, make)
            if fault not in ("bytes", "ragged", "records"):
                yield "a.csv", f"{name} {fault}", _in_csv(name, make)
        yield "a.csv", f"{name} renamed", _renamed(name, "other")
        yield "a.csv", f"{name} twice", _renamed(name, "observation_0")
    for encoding in ("utf-16", "utf-16-be", "utf-32", "cp500"):
        yield "a.csv", encoding, lambda path, encoding=encoding: path.write_bytes(path.read_text().encode(encoding))
    for fault, change in {"ragged": ("\n", ",1\n", 5), "quotes": (",", ',"', 9), "latin": ("r", "\xe9", 1)}.items():
        yield (
            "a.csv",
            fault,
            lambda path, change=change: path.write_bytes(path.read_text().replace(*change).encode("latin-1")),
        )


def _in_parquet(name: str, make: Callable[[int], Any]) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        changed = table.set_column(table.column_names.index(name), name, make(len(table)))
        pyarrow.parquet.write_table(changed, path)

    return damage


def _in_csv(name: str, make: Callable[[int], Any]) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        import pyarrow.csv

        table = pyarrow.csv.read_csv(path)
        values = [str(value) for value in make(len(table)).to_pylist()]
        lines = path.read_text().splitlines()
        place = table.column_names.index(name)
        rows = [line.split(",") for line in lines[1:]]
        for row, value in zip(rows, values, strict=True):
            row[place] = value
        path.write_text("\n".join([lines[0], *map(",".join, rows)]) + "\n")

    return damage


def _renamed(name: str, other: str) -> Callable[[pathlib.Path], None]:
    def damage(path: pathlib.Path) -> None:
        first, rest = path.read_text().split("\n", 1)
        path.write_text(first.replace(f'"{name}"', f'"{other}"') + "\n" + rest)

    return damage
