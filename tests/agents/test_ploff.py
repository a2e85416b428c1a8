"""PLOff's own part: the critics' values of the logged pairs, and what its actor is paid for."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agent_cases import advance, begin, dataset_for, distance_stats, td3_batch, tiny
from ploff import ActionSpace, Transitions
from ploff.agents import ploff
from ploff.agents.bonus import bonus, log_weights
from ploff.agents.dataset import OfflineDataset
from ploff.agents.networks import Actor, Critic, DoubleCritic
from ploff.agents.ploff import NeighborBonus, PloffConfig, PloffState
from ploff.training.train_state import TrainState
from ploff.utils.errors import PloffError


def test_a_step_leaves_the_standard_scores_of_its_batch_in_the_table():
    dataset, config = dataset_for("ploff"), tiny("ploff")
    state = begin("ploff", dataset, config)
    following, _ = advance("ploff", state, dataset, config)
    rows, batch = td3_batch(dataset, config)
    q = np.asarray(state.critics.params.min(batch.observations, batch.actions))
    expected = (q - q.mean()) / q.std()
    np.testing.assert_allclose(following.logged_q_scores[rows], expected, atol=1e-3)
    others = np.setdiff1d(np.arange(len(dataset.data)), rows)
    assert np.all(np.asarray(following.logged_q_scores)[others] == 0)


@pytest.mark.parametrize("value_scale", ["action_gradient", "mean_abs", "none"])
def test_the_actors_loss_is_the_value_and_the_bonus_in_their_own_units(value_scale):
    settings = {"policy_delay": 1, "actor_bonus_weight": 0.7, "num_neighbors": 3, "value_scale": value_scale}
    settings["deviation"] = "pair"
    dataset, config = dataset_for("ploff"), tiny("ploff", **settings)
    state, stats = begin("ploff", dataset, config), dataset.distances
    scores = jax.random.normal(jax.random.key(1), state.logged_q_scores.shape)
    state = dataclasses.replace(state, logged_q_scores=scores)
    following, info = advance("ploff", state, dataset, config)
    rows, batch = td3_batch(dataset, config)
    actions = state.actor.params(batch.observations)
    q1 = following.critics.params.q1
    q = q1(batch.observations, actions)
    near = stats.data_distance.neighbors[rows, :3]
    distances = stats.data_distance.distances_to(dataset.data.states(rows), actions, near) / stats.directional_std
    squared = stats.state_distances_sq[rows, :3].astype(jnp.float32)
    weights = log_weights(scores[near], squared, config.value_temperature, config.state_kernel)
    later = log_weights(following.logged_q_scores[near], squared, config.value_temperature, config.state_kernel)
    assert not np.allclose(weights, later)  # the table as this step left it is not yet in use
    earned = bonus("mean", q, distances, config.beta, weights)
    slopes = jax.vmap(jax.grad(lambda a, o: q1(o[None], a[None])[0]))(actions, batch.observations)
    half_range = dataset.data.action_space.half_range
    steepness = jnp.mean(jnp.linalg.norm(slopes * half_range, axis=-1))
    scales = {
        "action_gradient": steepness * stats.directional_std / stats.action_sensitivity,
        "mean_abs": jnp.mean(jnp.abs(q)),
        "none": 1.0,
    }
    expected = -jnp.mean(q) / scales[value_scale] - 0.7 * jnp.mean(earned)
    assert float(info["actor_loss"]) == pytest.approx(float(expected), rel=1e-4)
    nearest = jnp.mean(jnp.min(distances, axis=-1)) * stats.directional_std / stats.median_nn_distance
    assert float(info["data_distance"]) == pytest.approx(float(nearest), rel=1e-4)


@pytest.mark.parametrize("steepness", [0.1, 1.0, 30.0])
def test_the_policy_moves_one_by_the_weight_deviations_however_steep_the_critic_is(steepness):
    """A linear critic against −d²/2 of one pair in plain L2: the balance lies 1/α_a deviations up the slope."""
    std, weight = 0.4, 5.0
    slope = jnp.full((1, 2), steepness)
    stats = dataclasses.replace(
        dataset_for("ploff-l2").distances,
        action_spread=jnp.asarray(std),
    )
    near = NeighborBonus(stats, jnp.zeros(1), PloffConfig(actor_bonus_weight=weight))
    scale = near.value_scale(jnp.ones(1), slope / stats.data_distance.data.action_space.half_range)

    def loss(action):
        away = jnp.linalg.norm(action + 1e-12) / std
        return -jnp.sum(slope * action) / scale + weight * 0.5 * away**2

    action = jnp.zeros(2)
    for _ in range(200):
        action -= 0.1 * std**2 / weight * jax.grad(loss)(action)
    assert float(jnp.linalg.norm(action)) / std == pytest.approx(1 / weight, rel=1e-3)


def test_it_needs_distances_and_sensible_weights():
    dataset, config = dataset_for("ploff"), tiny("ploff")
    bare = OfflineDataset(dataset.data, dataset.rows)
    with pytest.raises(PloffError, match="distances to the data"):
        ploff.update(begin("ploff", dataset, config), bare, jax.random.key(0), config)
    wrong_settings = (
        {"beta": 0.0},
        {"value_temperature": -1.0},
        {"state_kernel": -1.0},
        {"num_neighbors": 0},
        {"policy_ema": 1.5},
    )
    for wrong in wrong_settings:
        with pytest.raises(PloffError):
            PloffConfig(**wrong)


class LinearCritic(Critic):
    """w s + u a."""

    weights: jax.Array

    def __init__(self, *weights):
        self.encoder, self.mlp, self.space, self.weights = None, None, LINE, jnp.asarray(weights)

    def __call__(self, observations, actions):
        return self.weights[0] * observations[:, 0] + self.weights[1] * actions[:, 0]


class LinearActor(Actor):
    """p s."""

    weight: jax.Array

    def __init__(self, weight):
        self.encoder, self.mlp, self.space, self.weight = None, None, LINE, jnp.asarray(weight)

    def __call__(self, observations):
        return self.weight * observations


LINE = ActionSpace.box([-1.0], [1.0])
FAMILIES = {"locomotion": (5.0, 1.0), "hand": (10.0, 10.0)}  # α_a, α_c; β is 0.5 for both


def one_transition_four_times():
    """(s, a) = (1, 0.5) pays 0.5 and leads to s' = 2; it is logged four times, and is the neighbor of both states."""
    ones = np.ones((4, 1), np.float32)
    data = Transitions.from_rows(
        observations=ones,
        actions=0.5 * ones,
        rewards=0.5 * ones[:, 0],
        next_observations=2 * ones,
        terminals=np.zeros(4, bool),
        timeouts=np.ones(4, bool),
        action_space=LINE,
    )
    return OfflineDataset.of(data, distance_stats(data, "l2", count=1))


def begun(params, target, tx):
    return TrainState(params, TrainState.init(params, tx).opt_state, target)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_update_as_printed_in_numbers_made_by_hand(family):
    alpha_a, alpha_c = FAMILIES[family]
    config = PloffConfig.paper(family, batch_size=4, target_noise=0.0, policy_delay=1)
    critics = DoubleCritic(LinearCritic(2.0, 1.0), LinearCritic(1.0, 1.0))
    targets = DoubleCritic(LinearCritic(1.0, 2.0), LinearCritic(2.0, 2.0))
    actor = begun(LinearActor(0.3), LinearActor(0.25), optax.adam(3e-4))
    state = PloffState(
        actor=actor,
        critics=begun(critics, targets, optax.adam(3e-4)),
        step=jnp.zeros((), jnp.int32),
        averaged_actor=actor.params,
        logged_q_scores=jnp.zeros(4),
    )
    state, info = ploff.update(state, one_transition_four_times(), jax.random.key(0), config)

    # Critic: the target policy does 0.25 · 2 = 0.5 at s' = 2, the pair (1, 0.5) is 1 away, Q̄ = min(3, 5).
    y = 0.5 + 0.99 * 3 + alpha_c * 3 * math.exp(-0.5)
    assert y > 2.5  # above both critics' values of (1, 0.5), 2.5 and 1.5: every weight of theirs grows
    assert float(info["critic_loss"]) == pytest.approx((2.5 - y) ** 2 + (1.5 - y) ** 2, rel=1e-5)
    for j, q in enumerate((2.5, 1.5)):
        moments = getattr(state.critics.opt_state[0].mu, f"q{j + 1}").weights
        np.testing.assert_allclose(10 * moments, [2 * (q - y), 2 * (q - y) * 0.5], rtol=1e-5)
    rate = 3e-4  # Adam's first step is as long as its rate
    np.testing.assert_allclose(state.critics.params.q1.weights, [2 + rate, 1 + rate], rtol=1e-6)
    np.testing.assert_allclose(state.critics.target.q1.weights, [1 + 0.005 * (1 + rate), 2 - 0.005 * (1 - rate)])

    # Actor: it does 0.3 at s = 1, 0.2 away from the pair. Q is the first critic after its step, Q̄ its target before:
    # 1.6, and 2 per unit of action. Towards the pair, the distance falls by 1 per unit.
    closeness = math.exp(-0.5 * 0.2)
    q, q_slope = (2 + rate) + 0.3 * (1 + rate), 1 + rate
    assert float(info["actor_loss"]) == pytest.approx(-q - alpha_a * 1.6 * closeness, rel=1e-5)
    slope = -q_slope - alpha_a * closeness * (2 + 1.6 * 0.5)
    assert float(10 * state.actor.opt_state[0].mu.weight) == pytest.approx(slope, rel=1e-5)
    assert float(state.actor.params.weight) == pytest.approx(0.3 + rate, rel=1e-6)
    assert float(state.actor.target.weight) == pytest.approx(0.25 + 0.005 * (0.05 + rate), rel=1e-6)
    assert ploff.policy(state).weight == state.actor.params.weight


def test_the_preset_paper_is_the_printed_algorithm():
    printed = PloffConfig.paper()
    assert (printed.bonus, printed.critic_form, printed.distance_unit) == ("value", "paper", "none")
    assert (printed.actor_bonus_weight, printed.critic_bonus_weight, printed.beta) == (5.0, 1.0, 0.5)
    assert not printed.layer_norm
    hand = PloffConfig.paper("hand")
    assert (hand.actor_bonus_weight, hand.critic_bonus_weight, hand.beta) == (10.0, 10.0, 0.5)
    assert PloffConfig.paper("other") == PloffConfig.paper("locomotion") == printed
    assert PloffConfig.paper("hand", actor_bonus_weight=2.0).actor_bonus_weight == 2.0
    assert (printed.value_scale, printed.policy_ema) == ("none", 0.0)
