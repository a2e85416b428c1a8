import math

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from discrete_cases import one_step, step_of, table, trained
from ploff.agents.discrete import bcq
from ploff.agents.discrete.bcq import BCQConfig, BCQPolicy, BCQState, usual
from ploff.training.train_state import TrainState

Q, TARGET = [[0.0, 4.0, 1.0], [3.0, 1.0, 2.0]], [[0.0, 0.0, 0.0], [10.0, 20.0, 30.0]]
LOGITS = [[0.0, 1.0, 2.0], [0.0, 3.0, 2.9]]


def test_an_action_is_usual_by_its_ratio_to_the_likeliest_legal_one():
    logits = jnp.log(jnp.asarray([[0.5, 0.3, 0.2]]))
    assert usual(logits, None, 0.5).tolist() == [[True, True, False]]
    assert usual(logits, jnp.asarray([[False, True, True]]), 0.5).tolist() == [[False, True, True]]
    assert usual(logits, None, 0.0).all()


def test_only_usual_actions_are_followed_and_the_model_imitates():
    config = BCQConfig(discount=0.9, batch_size=2, threshold=0.3, logit_penalty=0.5)
    behavior = TrainState.init(table(LOGITS), optax.adam(3e-4))
    state = BCQState(trained(Q, TARGET), behavior, jnp.asarray(0.3))
    _, info = step_of(bcq, state, one_step(), config)
    assert float(info["critic_loss"]) == pytest.approx((4 - (0.5 + 0.9 * 30)) ** 2)  # action 0 is not usual there
    cross_entropy = math.log(1 + math.e + math.exp(2)) - 1
    assert float(info["behavior_loss"]) == pytest.approx(cross_entropy + 0.5 * (0 + 1 + 4) / 3, rel=1e-6)


def test_the_policy_chooses_the_best_of_the_usual_and_legal():
    policy = BCQPolicy(table(Q), table(LOGITS), jnp.asarray(0.3))
    assert policy(jnp.eye(2)).tolist() == [1, 2]
    assert policy(jnp.eye(2), jnp.asarray([[True, False, True], [True, True, False]])).tolist() == [2, 1]
    np.testing.assert_array_equal(policy.probabilities(jnp.eye(2)), [[0, 1, 0], [0, 0, 1]])
