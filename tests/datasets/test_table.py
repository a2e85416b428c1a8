import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from data_cases import LAYOUTS, make_rows, refusal, write_hdf5
from ploff import datasets
from ploff.actions import ActionSpace
from ploff.transitions import UNKNOWN
from ploff.utils.errors import DataError, PloffWarning


def write_csv(path, columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_table(tmp_path, **changes):
    columns = {
        "obs_0": [1.0, 2.0, 3.0],
        "action_0": [0.0, 0.5, 1.0],
        "reward": [0.0, 1.0, 2.0],
        "terminal": [0, 0, 1],
        "episode": [1, 1, 2],
    } | changes
    present = {name: values for name, values in columns.items() if values is not None}
    lines = [",".join(present), *(",".join(map(str, row)) for row in zip(*present.values(), strict=True))]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_columns_are_found_by_convention_and_put_in_order(tmp_path):
    path = write_csv(
        tmp_path / "log.csv",
        {
            "time": [0.0, 0.1, 0.2, 0.3],
            "remark": ["cold", "cold", "warm", "hot"],
            "obs_10": [10.0, 10.5, 11.5, 12.5],
            "obs_9": [9.0, 9.5, 9.25, 9.75],
            "action_0": [0.5, -0.5, 0.25, 0.0],
            "reward": [1.0, 2.0, 3.0, 4.0],
            "terminated": ["false", "true", "false", "false"],
            "truncated": [0, 0, 0, 1],
        },
    )
    transitions = datasets.load(path, action_low=-1, action_high=1, infos=True)
    np.testing.assert_array_equal(transitions.observations[0], [9, 10])
    assert transitions.terminals.tolist() == [False, True, False, False]
    assert transitions.timeouts.tolist() == [False, False, False, True]
    assert transitions.successors.tolist() == [1, UNKNOWN, 3, UNKNOWN]
    assert transitions.infos["time"].tolist() == [0.0, 0.1, 0.2, 0.3]
    assert "remark" not in transitions.infos


def test_an_episode_column_marks_cuts_where_it_changes(tmp_path):
    path = write_csv(
        tmp_path / "log.csv",
        {
            "episode_id": ["a", "a", "b", "b", "c"],
            "state_speed": [1.0, 2.0, 3.0, 4.0, 5.0],
            "state_angle": [0.1, 0.2, 0.3, 0.4, 0.5],
            "action": [0, 1, 2, 1, 0],
            "reward": [1.0, 2.0, 3.0, 4.0, 5.0],
            "done": [0, 0, 0, 1, 0],
        },
    )
    transitions = datasets.load(path, choices=3)
    assert transitions.timeouts.tolist() == [False, True, False, False, True]
    assert transitions.terminals.tolist() == [False, False, False, True, False]
    assert transitions.episode_lengths().tolist() == [2, 2, 1]
    np.testing.assert_array_equal(transitions.observations[0], [1.0, 0.1])


def test_columns_can_be_named_and_lists_are_vectors(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table(
        {
            "sensors": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            "sensors_after": [[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]],
            "valve": [0.1, 0.2, 0.3],
            "profit": [1.0, 0.0, 2.0],
            "batch": [1, 1, 1],
        }
    )
    path = tmp_path / "plant.parquet"
    pyarrow.parquet.write_table(table, path)
    with pytest.warns(PloffWarning, match="no terminal column: every episode counts as cut"):
        transitions = datasets.load(
            path,
            action_low=0,
            action_high=1,
            columns={
                "observations": ["sensors"],
                "next_observations": ["sensors_after"],
                "actions": ["valve"],
                "rewards": ["profit"],
                "episodes": ["batch"],
            },
        )
    assert transitions.timeouts.tolist() == [False, False, True]
    assert transitions.num_states == 4
    np.testing.assert_array_equal(transitions.next_observations()[-1], [7, 8])


def test_what_a_table_says_about_an_action_is_no_part_of_it(tmp_path):
    path = write_csv(
        tmp_path / "log.csv",
        {
            "obs_0": [1.0, 2.0, 3.0],
            "action_0": [-1, 1, 1],  # as a CSV file writes -1.0 and 1.0
            "action_logprob": [-0.5, -0.7, -0.1],
            "reward": ["false", "true", "true"],
            "timeout": [0, 0, 1],
            "terminal": [0, 0, 0],
        },
    )
    transitions = datasets.load(path, action_low=-1, action_high=1)
    np.testing.assert_array_equal(transitions.actions, [[-1], [1], [1]])
    assert transitions.action_space == ActionSpace.box(-1, 1)
    assert transitions.rewards.tolist() == [0.0, 1.0, 1.0]
    assert transitions.episode_returns().tolist() == [2.0]


def test_a_list_that_is_missing_is_an_unknown_next_observation_and_nothing_else_may_be(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    columns = {
        "obs": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "next_obs": [[3.0, 4.0], None, [7.0, 8.0]],
        "action": [0.1, 0.2, 0.3],
        "reward": [1.0, 0.0, 2.0],
        "terminal": [False, False, False],
        "episode": [0, 0, 1],
    }
    path, bounds = tmp_path / "log.parquet", {"action_low": 0, "action_high": 1}
    pyarrow.parquet.write_table(pa.table(columns), path)
    transitions = datasets.load(path, **bounds)
    assert (transitions.successors == UNKNOWN).tolist() == [False, True, False]
    np.testing.assert_array_equal(transitions.next_observations()[2], [7, 8])
    pyarrow.parquet.write_table(pa.table({**columns, "next_obs": pa.array([None] * 3, pa.list_(pa.float64()))}), path)
    assert datasets.load(path, **bounds).successors.tolist() == [
        1,
        UNKNOWN,
        UNKNOWN,
    ]  # as if there were no column
    for name, gap, message in (
        ("obs", [[], [], []], "obs"),
        ("obs", [[1.0, 2.0], None, [5.0, 6.0]], "some are missing"),
        ("episode", [0, None, None], "'episode' has gaps: every row belongs to an episode"),
    ):
        pyarrow.parquet.write_table(pa.table({**columns, name: gap}), path)
        with pytest.raises(DataError, match=message):
            datasets.load(path, **bounds)


def test_long_lists_are_vectors_too(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    kind = pa.large_list(pa.float64())
    columns = {
        "observation": pa.array([[1.0, 2.0], [3.0, 4.0]], kind),
        "action": pa.array([[0.1], [0.2]], kind),
        "reward": [1.0, 0.0],
        "terminal": [False, True],
        "timeout": [False, False],
    }
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    transitions = datasets.load(tmp_path / "log.parquet", action_low=0, action_high=1)
    np.testing.assert_array_equal(transitions.observations, [[1, 2], [3, 4]])


def test_an_empty_next_observation_is_an_unknown_one(tmp_path):
    path = write_csv(
        tmp_path / "log.csv",
        {
            "obs_0": [1, 2, 3],
            "action_0": [0.0, 0.5, 1.0],
            "reward": [0, 1, 2],
            "timeout": [0, 1, 1],
            "terminal": [0, 0, 0],
            "next_obs_0": [2.0, "", 4.5],
        },
    )
    transitions = datasets.load(path, action_low=0, action_high=1)
    assert transitions.successors.tolist() == [1, UNKNOWN, 3]
    assert transitions.observations.ravel().tolist() == [1.0, 2.0, 3.0, 4.5]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("name", ["hopper_medium-v2", "door-cut-v1", "hopper_broken-v2"])
def test_tables_keep_every_number_and_end(name, suffix, tmp_path):
    source = write_hdf5(tmp_path / f"{name}.hdf5", make_rows(name, **LAYOUTS[name]))
    before = datasets.load(source)
    table = datasets.convert(source, tmp_path / f"{name}{suffix}")
    after = datasets.load(table, action_low=-1, action_high=1)
    for field in ("observations", "actions", "rewards", "terminals", "timeouts", "successors"):
        np.testing.assert_array_equal(
            np.asarray(getattr(after, field), np.float32), np.asarray(getattr(before, field), np.float32)
        )
    if suffix == ".parquet":
        assert after.observations.dtype == before.observations.dtype
        assert datasets.load(table).origin == before.origin


def test_a_table_without_a_field_names_what_it_found(tmp_path):
    message = refusal(write_table(tmp_path, obs_0=None))
    assert "lacks observations; it holds action_0, episode, reward, terminal" in message


def test_a_column_that_is_not_there_or_a_field_that_is_none_is_refused(tmp_path):
    path = write_table(tmp_path)
    assert "lacks speed; it holds action_0, episode" in refusal(path, columns={"observations": ["speed"]})
    with pytest.raises(DataError, match="no field is called 'states'; fields are observations"):
        datasets.load(path, columns={"states": ["obs_0"]})


def test_text_gaps_and_scattered_episodes_are_refused(tmp_path):
    message = refusal(write_table(tmp_path, reward=[1.0, 2.0, "lots"]))
    assert "column 'reward' holds text where numbers are expected, first 'lots' in row 2" in message
    message = refusal(write_table(tmp_path, obs_0=[1.0, "", 3.0]), action_low=0, action_high=1)
    assert "lacks values: 1 of 'obs_0' (first in row 1); --missing hold takes" in message
    message = refusal(write_table(tmp_path, episode=[1, 2, 1]))
    assert "the rows of an episode are not together: 'episode' comes back to 1 in row 2; sort by 'episode'" in message


def test_a_table_without_any_kind_of_end_is_refused(tmp_path):
    message = refusal(write_table(tmp_path, terminal=None, episode=None))
    assert "has neither a terminal, a timeout nor an episode column" in message


def plant_log(**changes):
    columns = {"observations": ["pressure", "flow"], "actions": ["valve"], "episodes": ["run"]}
    return {"columns": columns, "action_low": -1, "action_high": 1, **changes}


@pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")
def test_rewards_are_weighted_sums_of_columns(tmp_path):
    from table_cases import one_csv

    (path,) = one_csv(tmp_path)
    log = datasets.load(path, **plant_log(reward={"flow": 2, "valve": -0.5}))
    plain = datasets.load(path, **plant_log())
    np.testing.assert_allclose(log.rewards, 2 * plain.observations[:, 1] - 0.5 * plain.actions[:, 0], rtol=1e-12)
    assert "lacks depth; it holds" in refusal(path, **plant_log(reward={"depth": 1}))
    columns = plant_log()["columns"] | {"rewards": ["reward"]}
    assert "by --columns rewards=… and by --reward" in refusal(path, **plant_log(reward={"flow": 1}, columns=columns))


@pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")
def test_an_action_that_is_text_is_a_choice(tmp_path):
    from table_cases import plant

    path = write_csv(tmp_path / "plant.csv", plant() | {"valve": ["shut", "open", "half"] * 8})
    columns = plant_log()["columns"]
    log = datasets.load(path, columns=columns)
    assert log.action_space == ActionSpace.discrete(3)
    assert log.origin.schema.choices == ("half", "open", "shut")
    assert log.actions[:4].tolist() == [2, 1, 0, 2]
    path = write_csv(tmp_path / "plant.csv", plant() | {"valve": ["shut", "", "half"] * 8})
    assert "8 values of 'valve' are missing, first in row 1; fill them in" in refusal(path, columns=columns)
    columns = columns | {"observations": ["valve", "flow"]}
    assert "'valve' is named as an action and as an observation" in refusal(path, columns=columns)


@pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")
def test_frames_of_every_kind_are_read_as_the_file_is(tmp_path):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from table_cases import one_csv

    (path,) = one_csv(tmp_path)
    expected, frame = datasets.load(path, **plant_log()), pd.read_csv(path)
    for given in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.to_dict("list")):
        log = datasets.from_dataframe(given, **plant_log())
        assert log.fingerprint() == expected.fingerprint()
        assert log.origin.schema == expected.origin.schema
    frame.loc[3, "flow"] = np.nan
    with pytest.raises(DataError, match=r"frame lacks values: 1 of 'flow' \(first in row 3\)"):
        datasets.from_dataframe(frame, **plant_log())
    with pytest.raises(DataError, match="a frame of pandas, polars or Arrow, or columns by name; got list"):
        datasets.from_dataframe([1, 2], **plant_log())


def test_arrays_are_checked_as_files_are():
    random = np.random.default_rng(0)
    rows = {
        "observations": random.normal(size=(6, 2)),
        "actions": random.uniform(-1, 1, (6, 1)),
        "rewards": np.arange(6.0),
        "episodes": [0, 0, 0, 1, 1, 1],
        "observation_names": ["pressure", "flow"],
    }
    log = datasets.from_arrays(**rows, action_low=-1, action_high=1)
    assert log.episode_lengths().tolist() == [3, 3]
    assert log.timeouts.sum() == 2
    assert log.origin.schema.components == ("pressure", "flow")
    ended = datasets.from_arrays(**rows, terminals=[0, 0, 1, 0, 0, 0], action_low=-1, action_high=1)
    assert (ended.terminals.sum(), ended.timeouts.sum()) == (1, 1)
    gap = rows["observations"].copy()
    gap[2, 1] = np.nan
    with pytest.raises(DataError, match="arrays: observations holds 1 NaN or infinite value, first nan in row 2"):
        datasets.from_arrays(**{**rows, "observations": gap}, action_low=-1, action_high=1)
    for change, message in (
        ({"episodes": [0, 0, 1, 1, 0, 0]}, "the rows of an episode are not together"),
        ({"observation_names": ["pressure"]}, r"1 names for observations of shape \(2,\)"),
        ({"rewards": np.arange(5.0)}, "has 6 rows but rewards has 5"),
    ):
        with pytest.raises(DataError, match=message):
            datasets.from_arrays(**{**rows, **change}, action_low=-1, action_high=1)


def test_columns_that_cannot_be_told_apart_are_refused(tmp_path):
    assert "action_1 is missing before action_2" in refusal(write_table(tmp_path, action_2=[0.0, 0.1, 0.2]))
    assert "has the columns 'reward' and 'Reward'" in refusal(write_table(tmp_path, Reward=[5.0, 5.0, 5.0]))
    path = write_table(tmp_path)
    path.write_text(path.read_text().replace("terminal", "reward"))
    assert "has the columns 'reward' and 'reward'" in refusal(path)


def test_an_episode_without_a_number_is_refused(tmp_path):
    columns = {"obs_0": [1.0, 2.0], "action_0": [0.0, 1.0], "reward": [0.0, 1.0], "terminal": [0, 0]}
    columns["episode"] = [1.0, float("nan")]
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert "'episode' holds NaN" in refusal(tmp_path / "a.parquet")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_a_text_that_is_not_utf_8_is_refused(encoding, tmp_path):
    path = write_table(tmp_path, größe=[1.0, 2.0, 3.0])
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    assert "UTF-8" in refusal(path)


def test_text_and_dates_where_numbers_belong_are_refused(tmp_path):
    assert "'reward' holds text" in refusal(write_table(tmp_path, reward=["high", "low", "low"]))
    assert "'reward'" in refusal(write_table(tmp_path, reward=["2026-01-01", "2026-01-02", "2026-01-03"]))
