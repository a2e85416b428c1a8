import numpy as np
import pytest

from metric_cases import random_log
from ploff.judging import Gate, LogDistance, calibrate_gate
from ploff.judging.gate import calibrate_thresholds
from ploff.utils.errors import DataError, PloffError


def rates_on_new_episodes(rate, episodes=20, draws=150):
    """The rate of false alarms on an episode that the threshold has not seen: alike rows, by their own level."""
    rng = np.random.default_rng(0)

    def episode(count):
        return (rng.normal(size=(count, 1)) + 0.3 * rng.normal(size=(count, 30))).ravel()

    owners, found, rowwise = np.repeat(np.arange(episodes), 30), [], []
    for _ in range(draws):
        seen, new = episode(episodes), episode(20)
        found.append(np.mean(new > calibrate_thresholds(seen, owners, (rate,))[f"{rate:g}"]))
        rowwise.append(np.mean(new > np.quantile(seen, 1 - rate)))
    return np.mean(found), np.mean(rowwise)


def test_new_episodes_are_flagged_at_the_wanted_rate_where_rows_alone_would_miss_it():
    whole, rows = rates_on_new_episodes(0.1)
    assert 0.1 / 1.25 < whole < 0.1 * 1.25
    assert abs(whole - 0.1) < abs(rows - 0.1)


def test_thresholds_rise_as_fewer_alarms_are_wanted_and_a_file_keeps_them(tmp_path):
    data = random_log(episodes=20)
    distance = LogDistance.l2(data)
    gate, others = calibrate_gate(distance.logged, data, kind="l2", metric=distance.fingerprint)
    assert gate.threshold(0.01) >= gate.threshold(0.05) >= gate.threshold(0.1) > 0
    assert gate.outside([0.0, 1e9]).tolist() == [False, True]
    gate.save(tmp_path / "gate.json")
    assert Gate.load(tmp_path / "gate.json") == gate
    assert gate.episodes == 20
    lengths = data.episode_lengths()
    owners = np.repeat(np.arange(20), lengths)
    assert not np.any(owners[others.neighbors] == others.owners[:, None]), "no row is held against its own episode"


def test_a_rate_that_was_not_calibrated_a_log_of_one_episode_and_another_file_are_refused(tmp_path):
    gate = Gate({"0.05": 1.0}, "l2", "m", "d", 10, 100)
    with pytest.raises(PloffError, match=r"rates of 0\.05, not 0\.2"):
        gate.threshold(0.2)
    (tmp_path / "gate.json").write_text("{}")
    with pytest.raises(PloffError, match="not a gate"):
        Gate.load(tmp_path / "gate.json")
    data = random_log(episodes=1)
    distance = LogDistance.l2(data)
    with pytest.raises(DataError, match="one episode"):
        calibrate_gate(distance.logged, data, kind="l2", metric="m")
