import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ploff.networks import MLP, Linear
from ploff.relevance.predictors import PredictorBatch, Predictors, RelevanceConfig, draw_decoys
from ploff.utils.errors import PloffError
from relevance_cases import log_with_noise


def linear(weight):
    return MLP((Linear(jnp.asarray(weight, jnp.float32), None),), (), "relu", False)


def test_sensitivities_of_linear_networks_in_numbers():
    # Inverse dynamics: a = s₀ + 2 s′₁; behavior: a = 3 s₀; reward: r = 4 s₁ + 5 a. One column and its decoy each.
    predictors = Predictors(linear([[1], [0], [0], [2]]), linear([[3], [0]]), linear([[0], [4], [5]]))
    batch = PredictorBatch(jnp.ones((2, 2)), jnp.ones((2, 2)), jnp.ones((2, 1)), jnp.ones((2, 1)))
    inverse, behavior, reward = np.asarray(predictors.sensitivities(batch))[:, 0]
    np.testing.assert_allclose(inverse, [[1, 0], [0, 4]])
    np.testing.assert_allclose(behavior, [[9, 0], [0, 0]])
    np.testing.assert_allclose(reward, [[0, 0], [0, 16]])
    np.testing.assert_allclose(predictors.errors(batch), [(3 - 1) ** 2, (3 - 1) ** 2, (4 + 5 - 1) ** 2])


def test_decoys_come_from_other_episodes_and_move_as_the_log_does():
    data = log_with_noise(episodes=6, length=20)
    decoys = draw_decoys(data, np.random.default_rng(0))
    episodes = np.arange(len(data)) // 20
    assert np.all(episodes[decoys] != episodes)
    for episode in range(6):
        own = decoys[episodes == episode]
        assert len(set(own // 20)) == 1
        assert sorted(own) == list(range(own[0] // 20 * 20, own[0] // 20 * 20 + 20))
        assert np.sum(np.diff(own) == 1) >= 18  # consecutive, but where the other episode begins again


def test_a_log_of_one_episode_is_its_own_decoy_shifted():
    data = log_with_noise(episodes=1, length=40)
    decoys = draw_decoys(data, np.random.default_rng(0))
    assert sorted(decoys) == list(range(40))
    assert np.all(decoys != np.arange(40))


def test_noise_on_the_inputs_reaches_the_losses():
    predictors = Predictors.init(jax.random.key(0), 2, 1, (8,))
    batch = PredictorBatch(jnp.ones((4, 2)), jnp.ones((4, 2)), jnp.ones((4, 1)), jnp.ones((4, 1)))
    from ploff.relevance.predictors import _noisy_loss

    silent = dataclasses.replace(RelevanceConfig(), action_noise=0.0, reward_noise=0.0)
    key = jax.random.key(1)
    assert float(_noisy_loss(predictors, batch, key, silent)) == pytest.approx(float(predictors.errors(batch).sum()))
    losses = {
        float(_noisy_loss(predictors, batch, key, dataclasses.replace(silent, **{name: 0.5})))
        for name in ("action_noise", "reward_noise")
    }
    assert len(losses | {float(predictors.errors(batch).sum())}) == 3


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"members": 0}, {"validation_fraction": 1.0}, {"weight_decay": -1.0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(PloffError):
        RelevanceConfig(**wrong)
