"""TD3+BC."""

import jax
import numpy as np
import pytest

from agent_cases import KEY, advance, begin, dataset_for, tiny, to_units


def test_the_actors_loss_is_imitation_less_the_normalized_value():
    """By hand: mean |π(s) − a|² − α mean Q₁ / mean |Q₁|, with the critics after their step."""
    dataset, config = dataset_for("td3-bc"), tiny("td3-bc", policy_delay=1, alpha=1.7)
    state = begin("td3-bc", dataset, config)
    after, info = advance("td3-bc", state, dataset, config)
    _, batch = dataset.sample(jax.random.split(KEY)[0], config.batch_size)
    actions = state.actor.params(batch.observations)
    q = np.asarray(after.critics.params.q1(batch.observations, actions))
    imitation = np.mean((to_units(np.asarray(actions)) - to_units(np.asarray(batch.actions))) ** 2)
    expected = imitation - 1.7 * q.mean() / np.abs(q).mean()
    assert float(info["actor_loss"]) == pytest.approx(expected, rel=1e-4)
