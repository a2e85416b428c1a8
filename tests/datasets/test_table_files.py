from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from data_cases import refusal
from ploff import datasets
from ploff.utils.errors import DataError
from table_cases import READING, one_csv, plant, several_files, without, write_parquet, write_text


def refused(name, **options):
    """As `refusal`, where the message names one of the files."""
    with pytest.raises(DataError) as caught:
        datasets.load(name, **options)
    return str(caught.value)


pytestmark = pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")


def test_files_are_laid_one_behind_another_in_the_order_of_their_numbers(tmp_path):
    columns = {name: values[:3] for name, values in plant().items()}
    for number in (10, 2, 1):
        write_text(tmp_path / f"part-{number}.csv", columns | {"flow": [number, number, number], "run": [number] * 3})
    log = datasets.load(tmp_path / "part-*.csv", **READING)
    assert log.observations[::3, 1].tolist() == [1, 2, 10]
    first = datasets.load(tmp_path / "part-10.csv", more=[str(tmp_path / "part-2.csv")], **READING)
    assert first.observations[::3, 1].tolist() == [10, 2]


def test_whole_numbers_in_one_file_and_fractions_in_another_are_fractions(tmp_path):
    columns = {name: values[:2] for name, values in plant().items()}
    write_parquet(tmp_path / "a.parquet", columns | {"flow": [1, 2], "run": [0, 0]})
    write_parquet(tmp_path / "b.parquet", columns | {"flow": [0.5, 1.5], "run": [1, 1]})
    assert datasets.load(tmp_path / "*.parquet", **READING).observations[:, 1].tolist() == [1, 2, 0.5, 1.5]


def test_a_file_that_differs_is_named_with_what_helps(tmp_path):
    several_files(tmp_path)
    columns = {name: values[:6] for name, values in plant().items()}
    write_text(tmp_path / "part-2.csv", without(columns, "flow"))
    message = refused(tmp_path / "part-[02].csv", **READING)
    assert "part-2.csv differs from" in message
    assert "it lacks 'flow'; leave that file out" in message
    write_text(tmp_path / "part-2.csv", columns | {"level": [1] * 6})
    assert "it has 'level', too; --ignore level leaves that out" in refused(tmp_path / "part-[02].csv", **READING)
    assert len(datasets.load(tmp_path / "part-[0].csv", ignore=["time"], **READING)) == 12


def test_text_in_a_number_is_named_by_file_column_and_row(tmp_path):
    one_csv(tmp_path)
    columns = plant()
    columns["flow"][17] = "off"
    write_text(tmp_path / "plant.csv", columns)
    message = refusal(tmp_path / "plant.csv", **READING)
    assert "plant.csv: column 'flow' holds text where numbers are expected, first 'off' in row 17; mend it" in message
    several_files(tmp_path)
    half = {name: values[:12] for name, values in plant().items()}
    half["flow"][3] = "off"
    write_text(tmp_path / "part-1.csv", half)
    message = refused(tmp_path / "part-*.csv", **READING)
    assert "part-1.csv differs from" in message
    assert "first 'off' in row 3;" in message


def test_delimiters_and_decimals_are_never_guessed_but_named(tmp_path):
    write_text(tmp_path / "plant.csv", plant(), ";", ",")
    assert "its header is one column, 'run;time;" in refusal(tmp_path / "plant.csv", **READING)
    assert "give --delimiter ';'" in refusal(tmp_path / "plant.csv", **READING)
    assert "give --decimal ," in refusal(tmp_path / "plant.csv", delimiter=";", **READING)
    log = datasets.load(tmp_path / "plant.csv", delimiter=";", decimal=",", **READING)
    assert log.observations[:, 0].tolist() == plant()["pressure"]


def test_two_columns_of_one_name_and_other_encodings_are_refused(tmp_path):
    (tmp_path / "twice.csv").write_text("run,flow,flow\n1,2,3\n")
    assert "has the columns 'flow' and 'flow'; leave one, or rename the other" in refusal(
        tmp_path / "twice.csv", **READING
    )
    (tmp_path / "latin.csv").write_bytes("run,flow,Ventilöffnung\n".encode("latin-1"))
    assert "write it as UTF-8" in refusal(tmp_path / "latin.csv", **READING)


def test_options_of_tables_are_refused_where_there_is_none():
    assert "is no table: gap is an option of tables alone" in refusal("sample", gap="10min")


def test_every_file_of_several_is_checked_and_the_fault_is_its_own(tmp_path):
    columns = {name: values[:12] for name, values in plant().items()}
    for number in (1, 2):
        write_parquet(tmp_path / f"part-{number}.parquet", columns | {"run": [number] * 12})
    table = pyarrow.parquet.read_table(tmp_path / "part-2.parquet")
    pyarrow.parquet.write_table(
        table, tmp_path / "part-2.parquet", write_page_checksum=True, compression="none", use_dictionary=False
    )
    sound = (tmp_path / "part-2.parquet").read_bytes()
    flow = np.asarray(columns["flow"]).tobytes()
    assert sound.count(flow) == 1
    (tmp_path / "part-2.parquet").write_bytes(sound.replace(flow, flow[:-1] + b"\0"))
    message = refused(tmp_path / "part-*.parquet", **READING)
    assert message.startswith(f"{tmp_path / 'part-2.parquet'} cannot be read as a table: ")
    assert "CRC checksum verification failed" in message
    twice = pa.Table.from_arrays([*table.columns, table.column("flow")], [*table.column_names, "flow"])
    pyarrow.parquet.write_table(twice, tmp_path / "part-2.parquet")
    message = refused(tmp_path / "part-*.parquet", **READING)
    assert message.startswith(f"{tmp_path / 'part-2.parquet'} has the columns 'flow' and 'flow'; leave one")


def test_columns_that_differ_in_capitals_or_have_a_gap_are_refused_until_one_is_left_out(tmp_path):
    chosen: dict[str, Any] = {
        "columns": {name: names for name, names in READING["columns"].items() if name != "rewards"}
    }
    write_text(tmp_path / "plant.csv", plant() | {"Reward": plant()["reward"]})
    assert "has the columns 'reward' and 'Reward'" in refusal(tmp_path / "plant.csv", **READING | chosen)
    assert len(datasets.load(tmp_path / "plant.csv", ignore=["Reward"], **READING | chosen)) == 24
    write_text(tmp_path / "plant.csv", without(plant(), "valve") | {"action_0": [0] * 24, "action_2": [1] * 24})
    chosen = {"columns": {name: names for name, names in READING["columns"].items() if name != "actions"}}
    assert "action_1 is missing before action_2" in refusal(tmp_path / "plant.csv", **READING | chosen)
