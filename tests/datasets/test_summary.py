import dataclasses

import numpy as np

from ploff.actions import ActionSpace
from ploff.datasets.summary import BINS, histogram, summary
from ploff.transitions import Origin, Transitions


def small_log():
    """Two episodes: three steps that end, with return 6, and one step that is cut, with return 4."""
    return Transitions.from_rows(
        observations=np.array([[0.0], [1.0], [2.0], [5.0]], np.float32),
        actions=np.array([[-1.0], [0.0], [1.0], [0.0]], np.float32),
        rewards=np.array([1.0, 2.0, 3.0, 4.0], np.float32),
        terminals=np.array([False, False, True, False]),
        timeouts=np.array([False, False, False, True]),
        action_space=ActionSpace.box([-1.0], [1.0]),
        origin=Origin(name="small", environment="hopper", physics="d4rl", reference_scores=(0.0, 10.0)),
    )


def test_a_summary_in_numbers():
    lines = dict(summary(small_log()))
    assert lines["environment"] == "hopper (d4rl)"
    assert (lines["transitions"], lines["episodes"], lines["terminals"], lines["timeouts"]) == ("4", "2", "1", "1")
    assert lines["observations"] == "1 float32, 0 … 5, mean 2"
    assert lines["actions"] == "1 float32 in [-1, 1], -1 … 1, mean 0"
    assert lines["rewards"] == "float32, 1 … 4, mean 2.5"
    assert lines["unknown successors"] == "2"
    assert lines["episode lengths"].startswith("1 … 3, median 2, mean 2")
    assert lines["returns"].startswith("4.0 … 6.0, median 5.0, mean 5.0")
    assert lines["normalized score"] == "50.0 (0 is a return of 0, 100 one of 10)"


def test_what_is_not_known_is_said():
    log = dataclasses.replace(small_log(), origin=Origin(), timeouts=np.zeros(4, bool))
    lines = dict(summary(log))
    assert lines["environment"] == "unknown"
    assert lines["episodes"] == "2, the last cut without a mark"
    assert lines["normalized score"] == "no reference scores for this data"


def test_choices_are_counted():
    log = dataclasses.replace(small_log(), actions=np.array([0, 2, 2, 2]), action_space=ActionSpace.discrete(3))
    assert dict(summary(log))["actions"] == "one of 3 choices, taken 25%, 0%, 75%"


def test_a_histogram_has_the_highest_bar_where_most_values_are():
    bars = histogram(np.array([0.0] * 8 + [1.0] * 4 + [2.0]))
    assert len(bars) == BINS
    assert (bars[0], bars[BINS // 2], bars[-1]) == ("█", "▄", "▁")
    assert set(bars[1 : BINS // 2]) == {" "}
