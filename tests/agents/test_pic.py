"""PIC's own part: which of the peers' actions the actor imitates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import advance, begin, dataset_for, td3_batch, tiny
from ploff.agents import pic
from ploff.agents.dataset import OfflineDataset
from ploff.utils.errors import PloffError


def test_the_best_peer_is_the_one_that_a_loop_over_all_of_them_finds():
    dataset, config = dataset_for("pic"), tiny("pic", num_neighbors=4)
    critics = begin("pic", dataset, config).critics.params
    rows = jnp.arange(6)
    observations = dataset.data.states(rows)
    found = pic.best_peer_action(critics, dataset, rows, observations, 4)
    near = np.asarray(dataset.distances.data_distance.neighbors)[:6, :4]
    logged = np.asarray(dataset.data.actions)
    for row in range(6):
        values = [
            min(float(q[0]) for q in critics(observations[row][None], jnp.asarray(logged[i])[None])) for i in near[row]
        ]
        np.testing.assert_array_equal(found[row], logged[near[row][int(np.argmax(values))]])


def test_the_actors_loss_imitates_the_best_peer_against_the_normalized_value():
    dataset, config = dataset_for("pic"), tiny("pic", policy_delay=1, num_neighbors=3, alpha=0.7)
    state = begin("pic", dataset, config)
    following, info = advance("pic", state, dataset, config)
    rows, batch = td3_batch(dataset, config)
    critics, space = following.critics.params, dataset.data.action_space
    peer = pic.best_peer_action(critics, dataset, jnp.asarray(rows), batch.observations, 3)
    actions = state.actor.params(batch.observations)
    q = critics.q1(batch.observations, actions)
    expected = jnp.mean(jnp.square(space.to_unit(actions) - space.to_unit(peer)))
    expected = expected - 0.7 * jnp.mean(q) / jnp.mean(jnp.abs(q))
    assert float(info["actor_loss"]) == pytest.approx(float(expected), rel=1e-4)


def test_one_peer_is_the_logged_action():
    dataset = dataset_for("pic")
    critics = begin("pic", dataset, tiny("pic")).critics.params
    rows = jnp.arange(5)
    peer = pic.best_peer_action(critics, dataset, rows, dataset.data.states(rows), 1)
    np.testing.assert_array_equal(peer, dataset.data.batch(rows).actions)


def test_it_needs_neighbors():
    dataset, config = dataset_for("pic"), tiny("pic")
    bare = OfflineDataset(dataset.data, dataset.rows)
    with pytest.raises(PloffError, match="needs neighbors"):
        pic.update(begin("pic", dataset, config), bare, jax.random.key(0), config)
