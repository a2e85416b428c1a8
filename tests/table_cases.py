"""Tables as people have them, each in a folder of its own, and what ploff should make of them."""

import csv
import gzip
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

ROWS, EPISODES = 24, 4
BOUNDS = {"action_low": -1, "action_high": 1}
COLUMNS = {"observations": ["pressure", "flow"], "actions": ["valve"], "episodes": ["run"]}
READING: dict[str, Any] = {"columns": COLUMNS, **BOUNDS}


def plant(seed: int = 0) -> dict[str, list[Any]]:
    """Columns of a plant: four runs of six rows, one row a minute, a day between runs."""
    random = np.random.default_rng(seed)
    minutes = [1440 * (i // 6) + i % 6 for i in range(ROWS)]
    times = np.datetime64("2024-01-31T12:00:00") + np.asarray(minutes, "timedelta64[m]")
    return {
        "run": [i // 6 for i in range(ROWS)],
        "time": [str(time).replace("T", " ") for time in times],
        "pressure": random.normal(5, 1, ROWS).round(3).tolist(),
        "flow": random.normal(0, 1, ROWS).round(3).tolist(),
        "valve": random.uniform(-1, 1, ROWS).round(3).tolist(),
        "reward": random.normal(0, 1, ROWS).round(3).tolist(),
    }


def without(columns: dict[str, list[Any]], *names: str) -> dict[str, list[Any]]:
    return {name: values for name, values in columns.items() if name not in names}


def write_text(path: pathlib.Path, columns: dict[str, list[Any]], delimiter: str = ",", decimal: str = ".") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([str(x).replace(".", decimal) if isinstance(x, float) else x for x in row])


def write_parquet(path: pathlib.Path, columns: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pa.table(columns), path)


def one_csv(folder: pathlib.Path) -> list[str]:
    write_text(folder / "plant.csv", plant())
    return [str(folder / "plant.csv")]


def semicolons_and_decimal_commas(folder: pathlib.Path) -> list[str]:
    write_text(folder / "plant.csv", plant(), ";", ",")
    return [str(folder / "plant.csv")]


def tabs(folder: pathlib.Path) -> list[str]:
    write_text(folder / "plant.tsv", plant(), "\t")
    return [str(folder / "plant.tsv")]


def gzipped(folder: pathlib.Path) -> list[str]:
    write_text(folder / "plant.csv.gz", plant())
    return [str(folder / "plant.csv.gz")]


def zstandard(folder: pathlib.Path) -> list[str]:
    import pyarrow as pa

    write_text(folder / "plain.csv", plant())
    with pa.output_stream(str(folder / "plant.csv.zst"), compression="zstd") as out:
        out.write((folder / "plain.csv").read_bytes())
    return [str(folder / "plant.csv.zst")]


def several_files(folder: pathlib.Path) -> list[str]:
    columns = plant()
    for i, cut in enumerate((slice(0, 12), slice(12, 24))):
        write_text(folder / f"part-{i}.csv", {name: values[cut] for name, values in columns.items()})
    return [str(folder / "part-0.csv"), str(folder / "part-1.csv")]


def a_glob_of_episodes(folder: pathlib.Path) -> list[str]:
    """More than nine files, so that their names must be sorted as numbers."""
    columns = without(plant(), "run", "time")
    for i in range(12):
        write_text(folder / f"log-{i}.csv", {name: values[2 * i : 2 * i + 2] for name, values in columns.items()})
    return [str(folder / "log-*.csv")]


def a_folder_with_a_file_per_episode(folder: pathlib.Path) -> list[str]:
    columns = without(plant(), "run", "time")
    for i in range(EPISODES):
        write_parquet(folder / "logs" / f"{i}.parquet", {n: v[6 * i : 6 * i + 6] for n, v in columns.items()})
    return [str(folder / "logs")]


def hive_partitions(folder: pathlib.Path) -> list[str]:
    columns = without(plant(), "run")
    for i in range(EPISODES):
        place = folder / "lake" / f"run={i}" / "part-0.parquet"
        write_parquet(place, {name: values[6 * i : 6 * i + 6] for name, values in columns.items()})
    return [str(folder / "lake")]


def gaps_in_time(folder: pathlib.Path) -> list[str]:
    write_text(folder / "plant.csv", without(plant(), "run"))
    return [str(folder / "plant.csv")]


def missing_values(folder: pathlib.Path) -> list[str]:
    columns = plant()
    columns["pressure"][0] = columns["pressure"][7] = columns["flow"][8] = ""
    write_text(folder / "plant.csv", columns)
    return [str(folder / "plant.csv")]


def categories_and_flags(folder: pathlib.Path) -> list[str]:
    columns = without(plant(), "flow")
    columns["pump_on"] = [["false", "true"][i % 2] for i in range(ROWS)]
    columns["mode"] = [("auto", "hand", "off")[i % 3] for i in range(ROWS)]
    columns["remark"] = [f"note {i}" for i in range(ROWS)]
    write_text(folder / "plant.csv", columns)
    return [str(folder / "plant.csv")]


def whole_numbers_that_are_categories(folder: pathlib.Path) -> list[str]:
    columns = plant() | {"shift": [i % 3 + 1 for i in range(ROWS)], "vessel": [7] * ROWS}
    write_text(folder / "plant.csv", columns)
    return [str(folder / "plant.csv")]


def costs_and_an_end(folder: pathlib.Path) -> list[str]:
    columns = without(plant(), "reward")
    columns["cost"] = [1.0 + 0.5 * (i % 3) for i in range(ROWS)]
    columns["failed"] = [int(i == 11) for i in range(ROWS)]
    write_text(folder / "plant.csv", columns)
    return [str(folder / "plant.csv")]


def lists(folder: pathlib.Path) -> list[str]:
    columns = plant()
    sensors = [list(pair) for pair in zip(columns["pressure"], columns["flow"], strict=True)]
    write_parquet(folder / "plant.parquet", without(columns, "pressure", "flow") | {"sensors": sensors})
    return [str(folder / "plant.parquet")]


Maker = Callable[[pathlib.Path], list[str]]
# Tables, with their episodes and the names of an observation's numbers.
TABLES: dict[Maker, tuple[int, list[str]]] = {
    one_csv: (4, ["pressure", "flow"]),
    semicolons_and_decimal_commas: (4, ["pressure", "flow"]),
    tabs: (4, ["pressure", "flow"]),
    gzipped: (4, ["pressure", "flow"]),
    zstandard: (4, ["pressure", "flow"]),
    several_files: (4, ["pressure", "flow"]),
    a_glob_of_episodes: (12, ["pressure", "flow"]),
    a_folder_with_a_file_per_episode: (4, ["pressure", "flow"]),
    hive_partitions: (4, ["pressure", "flow"]),
    gaps_in_time: (4, ["pressure", "flow"]),
    missing_values: (4, ["pressure", "flow"]),
    categories_and_flags: (4, ["pressure", "pump_on", "mode=auto", "mode=hand", "mode=off"]),
    whole_numbers_that_are_categories: (4, ["pressure", "flow", "shift=1", "shift=2", "shift=3"]),
    costs_and_an_end: (4, ["pressure", "flow"]),
    lists: (4, ["sensors[0]", "sensors[1]"]),
}
