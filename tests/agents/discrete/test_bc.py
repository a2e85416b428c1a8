import math

import numpy as np
import optax
import pytest

from discrete_cases import bandit_log, learn, one_step, quick_config, step_of, table
from ploff.agents import get_method
from ploff.agents.bc import BCConfig
from ploff.agents.discrete import bc
from ploff.agents.discrete.bc import BCState
from ploff.agents.policy import Policy
from ploff.training.train_state import TrainState


def test_the_loss_is_the_cross_entropy_among_legal_actions():
    state = BCState(TrainState.init(table([[0.0, 1.0, 2.0], [0.0] * 3]), optax.adam(3e-4)))
    _, info = step_of(bc, state, one_step(), BCConfig(batch_size=2))
    assert float(info["actor_loss"]) == pytest.approx(math.log(1 + math.e + math.exp(2)) - 1, rel=1e-6)
    _, info = step_of(bc, state, one_step(mask=[[1, 1, 0], [1, 1, 1]]), BCConfig(batch_size=2))
    assert float(info["actor_loss"]) == pytest.approx(math.log(1 + math.e) - 1, rel=1e-6)


def test_the_probabilities_are_those_of_the_log():
    log = bandit_log(2000)
    state, data = learn("discrete-bc", log, quick_config("discrete-bc"), 800)
    policy = Policy.of(get_method("discrete-bc"), state, data)
    states = np.eye(4, dtype=np.float32)
    counts = np.zeros((4, 4))
    np.add.at(counts, (np.argmax(log.observations[:2000], axis=1), log.actions), 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(policy.probabilities(states), shares, atol=0.06)
    assert policy(states).tolist() == [1, 2, 3, 0]
