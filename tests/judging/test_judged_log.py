import numpy as np
import pytest

from judging_cases import always, judged_log, two_states
from ploff.judging.judged_log import JudgedLog, held_out_episodes
from ploff.utils.errors import DataError, PloffError


def test_episodes_kept_from_training_are_the_same_for_the_same_log_and_never_all():
    data = two_states(episodes=10)
    assert len(held_out_episodes(data, 0.3)) == 3
    np.testing.assert_array_equal(held_out_episodes(data, 0.3), held_out_episodes(data, 0.3))
    assert len(held_out_episodes(data, 0.99)) == 9
    assert len(held_out_episodes(data, 0.0)) == 0


def test_judging_happens_in_the_first_states_of_the_episodes_that_were_kept():
    log = JudgedLog.of(two_states(episodes=10), [2, 7])
    np.testing.assert_array_equal(log.starts, [10, 35])
    assert log.kept
    assert log.horizon == 5
    assert not judged_log(episodes=3).kept


def test_what_cannot_be_judged_is_said_in_one_line():
    with pytest.raises(DataError, match=r"1 episode\(s\); judging needs at least 2"):
        JudgedLog.of(two_states(episodes=1))
    log = judged_log(episodes=4)
    with pytest.raises(PloffError, match=r"acts outside of the bounds: dimension 0 is 1\.5"):
        log.actions_of(always(1.5))
    with pytest.raises(PloffError, match="not finite in the state of row 0"):
        log.actions_of(always(np.nan))

    def wide(observations):
        return np.zeros((len(observations), 3), np.float32)

    with pytest.raises(PloffError, match=r"actions of shape \(3,\), the log has \(1,\)"):
        log.actions_of(wide)
    with pytest.raises(DataError, match="one episode: none of them can be kept"):
        held_out_episodes(two_states(episodes=1), 0.1)
