import jax
import numpy as np
import pytest

from ploff.actions import ActionSpace
from ploff.transitions import Transitions
from ploff.utils.errors import DataError


def test_the_device_shares_the_memory_of_a_log():
    log = Transitions.from_rows(
        observations=np.arange(3000, dtype=np.float32).reshape(1000, 3),
        next_observations=np.arange(3, 3003, dtype=np.float32).reshape(1000, 3),
        actions=np.zeros((1000, 2), np.float32),
        rewards=np.zeros(1000, np.float32),
        terminals=np.zeros(1000, bool),
        timeouts=np.arange(1000) == 999,
        action_space=ActionSpace.box([-1, -1], [1, 1]),
    )
    device = log.to_device()
    if jax.default_backend() == "cpu":
        assert device.observations.unsafe_buffer_pointer() == log.observations.ctypes.data
        assert device.actions.unsafe_buffer_pointer() == log.actions.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        log.observations[0] = 1.0


def test_states_and_successors_must_be_of_one_type():
    with pytest.raises(DataError, match="observations are float64 but next_observations are float32"):
        Transitions.from_rows(
            observations=np.zeros((3, 1)),
            next_observations=np.zeros((3, 1), np.float32),
            actions=np.zeros((3, 1)),
            rewards=np.zeros(3),
            terminals=np.zeros(3, bool),
            timeouts=np.zeros(3, bool),
            action_space=ActionSpace.box(-1, 1),
        )
