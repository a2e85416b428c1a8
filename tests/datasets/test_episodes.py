import numpy as np
import pytest

from data_cases import refusal
from ploff import datasets
from ploff.datasets.columns import seconds
from table_cases import BOUNDS, COLUMNS, READING, a_folder_with_a_file_per_episode, plant, without, write_text

pytestmark = pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")
NO_RUN = {"columns": {name: names for name, names in COLUMNS.items() if name != "episodes"}, **BOUNDS}


@pytest.mark.parametrize(("text", "value"), [("10min", 600), ("1.5 h", 5400), ("250ms", 0.25), ("7", 7)])
def test_a_gap_is_a_length_of_time(text, value):
    assert seconds(text) == value


def test_an_episode_ends_where_the_gap_is_longer(tmp_path):
    write_text(tmp_path / "plant.csv", plant())
    assert datasets.load(tmp_path / "plant.csv", gap="10min", **NO_RUN).episode_lengths().tolist() == [6] * 4
    assert datasets.load(tmp_path / "plant.csv", gap="30s", **NO_RUN).episode_lengths().tolist() == [1] * 24
    assert datasets.load(tmp_path / "plant.csv", gap="60s", **NO_RUN).episode_lengths().tolist() == [6] * 4
    # the column and the gap together: where either says so
    columns = plant() | {"run": [i // 12 for i in range(24)]}
    write_text(tmp_path / "plant.csv", columns)
    assert datasets.load(tmp_path / "plant.csv", gap="10min", **READING).episode_lengths().tolist() == [6] * 4
    assert "--gap is a number with ms, s, min, h or d" in refusal_of_gap(tmp_path / "plant.csv")


def refusal_of_gap(path):
    with pytest.raises(datasets.DataError) as caught:
        datasets.load(path, gap="ten minutes", **NO_RUN)
    return str(caught.value)


def test_every_file_may_be_an_episode(tmp_path):
    (folder,) = a_folder_with_a_file_per_episode(tmp_path)
    columns = {**NO_RUN["columns"], "episodes": ["@file"]}
    log = datasets.load(folder, **{**NO_RUN, "columns": columns})
    np.testing.assert_array_equal(log.episode_ends(), [5, 11, 17, 23])


def test_an_episode_that_returns_is_named_with_its_row(tmp_path):
    write_text(tmp_path / "plant.csv", plant() | {"run": [0] * 8 + [1] * 8 + [0] * 8})
    message = refusal(tmp_path / "plant.csv", **READING)
    assert "'run' comes back to 0 in row 16; sort by 'run'" in message


def test_an_unsorted_table_is_named_with_its_row(tmp_path):
    columns = plant()
    columns["time"][8], columns["time"][9] = columns["time"][9], columns["time"][8]
    write_text(tmp_path / "plant.csv", columns)
    timed = {**READING, "columns": {**COLUMNS, "time": ["time"]}}
    message = refusal(tmp_path / "plant.csv", **timed)
    assert "is not sorted: 'time' goes back from 2024-02-01 12:03:00 to 2024-02-01 12:02:00 in row 9; sort" in message
    # between episodes, time may go anywhere
    columns = plant()
    columns["time"] = columns["time"][12:] + columns["time"][:12]
    write_text(tmp_path / "plant.csv", columns)
    assert len(datasets.load(tmp_path / "plant.csv", **timed)) == 24


def test_a_gap_needs_one_time_column(tmp_path):
    write_text(tmp_path / "plant.csv", plant() | {"Timestamp": plant()["time"]})
    message = refusal(tmp_path / "plant.csv", gap="10min", **NO_RUN)
    assert "has two time columns, 'time' and 'Timestamp'; name one by --columns time=NAME" in message
    write_text(tmp_path / "plant.csv", without(plant(), "time"))
    assert "has no time column" in refusal(tmp_path / "plant.csv", gap="10min", **NO_RUN)
    write_text(tmp_path / "plant.csv", plant() | {"time": ["31.01.2024 12:00"] * 24})
    message = refusal(tmp_path / "plant.csv", gap="10min", **NO_RUN)
    assert "'time' holds string, first '31.01.2024 12:00' in row 0; a time is written as 2024-01-31" in message
