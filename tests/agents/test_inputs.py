import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ploff import datasets
from ploff.agents import get_method
from ploff.agents.dataset import OfflineDataset
from ploff.agents.policy import Policy, read_policy, save_policy
from ploff.utils.errors import PloffError
from table_cases import categories_and_flags, missing_values, one_csv, plant, write_text

pytestmark = pytest.mark.filterwarnings("ignore::ploff.utils.errors.PloffWarning")
COLUMNS = {"actions": ["valve"], "episodes": ["run"]}


def cloned(path, observations, **reading):
    """A policy, not trained, for a table; and the table."""
    columns = {**COLUMNS, "observations": observations}
    data = datasets.load(path, columns=columns, action_low=-1, action_high=1, **reading)
    data, method = data.with_normalized_observations(), get_method("bc")
    config = method.config(hidden_sizes=(8,))
    return Policy.of(method, method.init(jax.random.key(0), OfflineDataset.of(data), config), data), data, config


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    (path,) = one_csv(folder)
    policy, data, config = cloned(path, ["pressure", "flow"])
    save_policy(folder / "policy.eqx", policy, "bc", config)
    return read_policy(folder / "policy.eqx"), data, pd.read_csv(path)


def test_logged_rows_by_name_are_the_same_to_the_bit(made):
    policy, data, frame = made
    expected = np.asarray(policy(data.observations))
    columns = {"flow": plant()["flow"], "pressure": plant()["pressure"]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for given in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), columns, rows, frame.to_dict("list")):
        np.testing.assert_array_equal(policy(given), expected)
    one = {"pressure": plant()["pressure"][0], "flow": plant()["flow"][0], "never heard of": "x"}
    np.testing.assert_array_equal(policy(one), policy(data.observations[:1]))
    np.testing.assert_array_equal(policy(data.observations[0].tolist()), policy(data.observations[:1]))


def test_what_does_not_fit_is_named(made):
    policy, _, frame = made
    for given, message in (
        ({"pressure": 1.0}, "lacks 'flow'; this policy reads pressure, flow"),
        ([{"pressure": 1.0, "flow": 0.0}, {"pressure": 1.0}], "lacks 'flow'"),
        (frame.drop(columns="pressure"), "lacks 'pressure'"),
        ({"pressure": 1.0, "flow": None}, "lacks values: 1 of 'flow' .first in row 0."),
        ({"pressure": [1.0, np.nan], "flow": [0.0, 0.0]}, "lacks values: 1 of 'pressure' .first in row 1."),
        ({"pressure": 1.0, "flow": "much"}, "column 'flow' holds text where numbers are expected, first 'much'"),
        ({"pressure": [1.0, 2.0], "flow": [0.0]}, "columns of equal length"),
        (np.asarray([[1.0, np.nan]]), r"row 0, column 1 \('flow'\) of the observations is nan"),
        (np.zeros((2, 3)), r"observations of shape \(2,\), got \(3,\)"),
        (["auto", "hand"], "a real number is expected"),
    ):
        with pytest.raises(PloffError, match=message):
            policy(given)


def test_a_policy_of_arrays_knows_no_columns(made):
    policy, data, _ = made
    nameless = Policy(policy.actor, policy.normalizer, policy.action_space, policy.observation_shape)
    np.testing.assert_array_equal(nameless(data.observations), policy(data.observations))
    with pytest.raises(PloffError, match="knows no columns; give it an array"):
        nameless({"pressure": 1.0, "flow": 0.0})
    with pytest.raises(PloffError, match="row 0, column 1 of the observations is nan"):
        nameless(np.asarray([[1.0, np.nan]]))


def test_a_category_never_seen_is_one_of_its_own(tmp_path):
    (path,) = categories_and_flags(tmp_path)
    policy, data, _ = cloned(path, ["pressure", "pump_on", "mode"])
    never = policy({"pressure": 5.0, "pump_on": True, "mode": "never"})
    np.testing.assert_array_equal(never, policy(np.asarray([[5.0, 1, 0, 0, 0]])))
    frame = pd.read_csv(path)
    np.testing.assert_array_equal(policy(frame), policy(data.observations))


def test_a_value_is_held_through_an_episode_as_in_training(tmp_path):
    (path,) = missing_values(tmp_path)
    policy, data, _ = cloned(path, ["pressure", "flow"], missing="hold")
    frame = pd.read_csv(path)
    with pytest.raises(PloffError, match=r"`policy.episode\(\)` holds the last value"):
        policy(frame)
    for _, rows in frame.groupby("run"):
        states = data.observations[rows.index]
        np.testing.assert_array_equal(policy.episode()(rows), policy(states))
        act = policy.episode()
        steps = [act({"pressure": row.pressure, "flow": row.flow}) for row in rows.itertuples()]
        np.testing.assert_array_equal(steps, [policy(state[None]) for state in states])


def test_a_missing_sensor_is_its_mean_with_a_flag(tmp_path):
    columns = plant()
    columns["pressure"][3] = ""
    write_text(tmp_path / "plant.csv", columns)
    policy, _, _ = cloned(tmp_path / "plant.csv", ["pressure", "flow"], missing="mean+flag")
    mean = np.mean([value for value in columns["pressure"] if value != ""])
    np.testing.assert_array_equal(policy({"pressure": None, "flow": 0.5}), policy(np.asarray([[mean, 1, 0.5]])))
    with pytest.raises(PloffError, match="the data never lacked them"):
        policy({"pressure": 1.0, "flow": None})
