"""CQL, BEAR, BRAC-v and BCQ: losses over sampled actions, against slow references."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import logsumexp

from agent_cases import KEY, SPACE, advance, begin, log_for, tiny, to_units
from ploff.agents import bcq, bear, brac_v, cql
from ploff.agents.actor_critic import Layers
from ploff.agents.gaussian import SquashedGaussian
from ploff.agents.learner import Learner
from ploff.agents.sampled import most_mixed_value
from ploff.errors import PloffError


def arrays(tree):
    return eqx.filter(tree, eqx.is_array)


def squares(critics, batch, wanted):
    return sum(np.mean((np.asarray(x) - wanted) ** 2) for x in critics(batch.observations, batch.actions))


def target(batch, value, discount=0.5):
    return np.asarray(batch.rewards) + ~np.asarray(batch.terminals) * discount * np.asarray(value)


# CQL.


def cql_case(**changes):
    config, log = tiny("cql", **changes), log_for("cql")
    state = dataclasses.replace(begin("cql", log, config), step=jnp.asarray(config.warmup))
    draw_key, _, key = jax.random.split(KEY, 3)
    _, batch = log.draw(draw_key, config.batch)
    propose_key, next_key, _ = jax.random.split(key, 3)
    following = state.actor.network.sample(next_key, batch.next_observations, 1).actions[0]
    return config, log, state, batch, cql.propose(state.actor.network, batch, propose_key, config), following


def test_proposals_are_uniform_then_the_policys_with_their_densities():
    config, _, state, batch, proposals, _ = cql_case()
    assert proposals.actions.shape == (30, config.batch, 2)
    np.testing.assert_allclose(proposals.log_density[:10], 2 * np.log(0.5), rtol=1e-6)
    here = state.actor.network.log_density(batch.observations, proposals.actions[10:20])
    there = state.actor.network.log_density(batch.next_observations, proposals.actions[20:])
    np.testing.assert_allclose(proposals.log_density[10:20], here, atol=1e-2)
    np.testing.assert_allclose(proposals.log_density[20:], there, atol=1e-2)


@pytest.mark.parametrize(
    ("threshold", "states", "draws"), [(None, None, None), (0.4, None, None), (None, 3, None), (None, 3, 2)]
)
def test_the_conservative_loss_is_that_of_a_loop(threshold, states, draws):
    config, _, state, batch, proposals, _ = cql_case(
        threshold=threshold, weight=2.0, softness=0.5, gap_states=states, gap_draws=draws
    )
    assert proposals.actions.shape == (30, states or config.batch, 2)
    wanted, gap_weight = np.linspace(0, 1, config.batch), 1.7
    loss, (error, gap, _) = cql.conservative_loss(
        state.critics.network, batch, jnp.asarray(wanted), proposals, gap_weight, KEY, config
    )
    expected, gaps, errors = 0.0, [], []
    for critic in (state.critics.network.first, state.critics.network.second):
        logged = np.asarray(critic(batch.observations, batch.actions), np.float64)
        seen = batch.observations[:states]
        each = np.stack([critic(seen, actions) for actions in proposals.actions])
        soft = 0.5 * logsumexp(each / 0.5 - np.asarray(proposals.log_density), axis=0)
        gaps.append(2.0 * np.mean(soft - logged[:states]))
        errors.append(np.mean((logged - wanted) ** 2))
        expected += errors[-1] + gap_weight * (gaps[-1] - (threshold or 0.0))
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert float(gap) == pytest.approx(np.mean(gaps), rel=1e-4)
    assert float(error) == pytest.approx(sum(errors), rel=1e-4)


def test_drawn_actions_give_the_gaps_gradient_on_average():
    config, _, state, batch, proposals, _ = cql_case(softness=0.025, gap_states=4)
    seen = batch.observations[:4]  # a softness at which the sum weighs values unevenly
    draws = dataclasses.replace(config, gap_draws=500)

    def gradient(config, key):
        def total(critics):
            return jnp.sum(cql.soft_values(critics, seen, proposals, key, config))

        leaves = jax.tree.leaves(arrays(eqx.filter_grad(total)(state.critics.network)))
        return np.concatenate([np.ravel(leaf) for leaf in leaves])

    exact = gradient(config, KEY)
    drawn = np.mean([gradient(draws, jax.random.key(number)) for number in range(8)], axis=0)
    evenly = gradient(dataclasses.replace(config, softness=1e6), KEY)
    assert np.linalg.norm(drawn - exact) < 0.03 * np.linalg.norm(exact)
    assert np.linalg.norm(evenly - exact) > 0.1 * np.linalg.norm(exact)


def test_many_uniform_proposals_estimate_the_integral_of_exp_q():
    config, _, state, batch, _, _ = cql_case()
    critic, count = state.critics.network.first, 4000
    unit = jax.random.uniform(KEY, (count, config.batch, 2), minval=-1, maxval=1)
    actions = SPACE.from_unit(unit)
    density = jnp.full((count, config.batch), 2 * np.log(0.5))
    _, (_, gap, _) = cql.conservative_loss(
        eqx.tree_at(lambda twins: twins.second, state.critics.network, critic),
        batch, jnp.zeros(config.batch), cql.Proposals(actions, density), 1.0, KEY, config,
    )  # fmt: skip
    grid = np.stack(np.meshgrid(*[np.linspace(-0.99, 0.99, 40)] * 2), -1).reshape(-1, 2)
    points = SPACE.from_unit(jnp.asarray(grid, jnp.float32))
    values = np.stack(
        [critic(batch.observations, jnp.broadcast_to(p, (config.batch, 2))) for p in points[::16]]
    )
    integral = np.log(4 * np.mean(np.exp(values), axis=0))
    logged = np.asarray(critic(batch.observations, batch.actions))
    assert float(gap) == pytest.approx(config.weight * np.mean(integral + np.log(count) - logged), rel=0.02)


def test_cqls_target_is_the_policys_next_action_without_its_entropy():
    config, log, state, batch, _, following = cql_case()
    _, info = advance("cql", state, log, config)
    wanted = target(batch, state.target_critics.least(batch.next_observations, following))
    assert float(info.critic_loss) == pytest.approx(squares(state.critics.network, batch, wanted), rel=1e-4)


def test_cqls_actor_imitates_first_and_then_follows_the_value():
    config, log, state, batch, _, _ = cql_case()
    for step in (config.warmup - 1, config.warmup):
        _, info = advance("cql", dataclasses.replace(state, step=jnp.asarray(step)), log, config)
        drawn = state.actor.network.sample(jax.random.split(KEY, 3)[1], batch.observations, 1)
        value = state.critics.network.least(batch.observations, drawn.actions[0])
        imitated = state.actor.network.log_density(batch.observations, batch.actions)
        expected = jnp.mean(drawn.log_density[0] - (imitated if step < config.warmup else value))
        assert float(info.actor_loss) == pytest.approx(float(expected), rel=1e-4)


def test_the_entropys_weight_falls_where_there_is_enough_of_it():
    config, log, state, *_ = cql_case()
    following, info = advance("cql", state, log, config)
    assert float(info.entropy) > -2
    assert float(following.log_entropy_weight.network) < 0


def test_with_lagrange_the_gaps_weight_rises_above_the_threshold_and_falls_below_it():
    config = tiny("cql", threshold=2.0)
    weight = Learner.init(jnp.zeros(()), optax.adam(config.critic_rate))
    assert float(cql.raise_gap_weight(weight, jnp.asarray(3.0), config).network) > 0
    assert float(cql.raise_gap_weight(weight, jnp.asarray(1.0), config).network) < 0
    assert cql.raise_gap_weight(weight, jnp.asarray(3.0), tiny("cql")) is weight


# BEAR.


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_the_discrepancy_is_that_of_a_loop_over_samples(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 4, 2)), rng.normal(size=(5, 4, 2))

    def mean(a, b):
        total = 0.0
        for i in a:
            for j in b:
                apart = np.sum((i - j) ** 2) if kernel == "gaussian" else np.sum(np.abs(i - j))
                total += np.exp(-apart / (2 * 1.5))
        return total / (len(a) * len(b))

    expected = [
        np.sqrt(mean(x[:, b], x[:, b]) + mean(y[:, b], y[:, b]) - 2 * mean(x[:, b], y[:, b]) + 1e-6)
        for b in range(4)
    ]
    apart = bear.discrepancy(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), kernel, 1.5)
    np.testing.assert_allclose(apart, expected, rtol=1e-3)


def test_equal_samples_have_no_discrepancy_and_a_finite_gradient():
    x = jax.random.normal(KEY, (3, 4, 2))
    value, gradient = jax.value_and_grad(lambda y: jnp.sum(bear.discrepancy(x, y, "gaussian", 1.0)))(x)
    assert float(value) == pytest.approx(4 * 1e-3, abs=4e-3)
    assert jnp.all(jnp.isfinite(gradient))


def test_the_multiplier_rises_above_the_threshold_and_falls_below_it_within_its_limits():
    config = tiny("bear", threshold=0.5)
    multiplier = Learner.init(jnp.zeros(()), optax.adam(config.multiplier_rate))
    assert float(bear.raise_multiplier(multiplier, jnp.asarray(0.6), config).network) > 0
    assert float(bear.raise_multiplier(multiplier, jnp.asarray(0.4), config).network) < 0
    steep = tiny("bear", threshold=0.5, multiplier_rate=100.0)
    multiplier = Learner.init(jnp.zeros(()), optax.adam(100.0))
    assert float(bear.raise_multiplier(multiplier, jnp.asarray(0.4), steep).network) == -5.0


@pytest.mark.parametrize(("warm", "behaviour"), [(True, "vae"), (False, "vae"), (True, "gaussian")])
def test_bears_losses_are_as_printed_and_its_actor_follows_the_value_once_warm(warm, behaviour):
    log, config = log_for("bear"), tiny("bear", behaviour=behaviour)
    state = dataclasses.replace(begin("bear", log, config), step=jnp.asarray(config.warmup - (not warm)))
    following, info = advance("bear", state, log, config)
    keys = jax.random.split(KEY, 5)
    _, batch = log.draw(keys[0], config.batch)
    proposed = state.actor.network.sample(keys[2], batch.next_observations, config.samples).actions
    value = most_mixed_value(state.target_critics, batch.next_observations, proposed, 0.75)
    expected = squares(state.critics.network, batch, target(batch, value))
    assert float(info.critic_loss) == pytest.approx(expected, rel=1e-4)
    modelled = following.behaviour.network.sample_raw(keys[3], batch.observations, config.matched_samples)
    drawn = state.actor.network.sample(keys[4], batch.observations, config.matched_samples)
    apart = float(jnp.mean(bear.discrepancy(drawn.raw, modelled, "gaussian", config.bandwidth)))
    q = float(jnp.mean(state.critics.network.least(batch.observations, drawn.actions[0])))
    assert float(info.actor_loss) == pytest.approx(apart - 0.05 - warm * q, rel=1e-4)
    assert float(info.discrepancy) == pytest.approx(apart, rel=1e-4)
    if behaviour == "gaussian":
        density = state.behaviour.network.log_density(batch.observations, batch.actions)
        assert float(info.behaviour_loss) == pytest.approx(-float(jnp.mean(density)), rel=1e-4)


def test_an_unknown_kernel_is_refused():
    with pytest.raises(PloffError, match="kernel"):
        tiny("bear", kernel="cubic")


# BRAC-v.


def constant_policy(mean, deviation):
    """A policy that is the same in every state."""
    policy = SquashedGaussian.init(jax.random.key(0), (2,), SPACE, Layers((4,)))
    bias = jnp.concatenate([jnp.asarray(mean), jnp.log(jnp.asarray(deviation))])
    return eqx.tree_at(lambda p: (p.body.last.weight, p.body.last.bias), policy, (jnp.zeros((4, 4)), bias))


def test_the_divergence_estimates_that_of_two_normal_distributions():
    ours, logs = constant_policy([0.2, -0.1], [0.5, 0.3]), constant_policy([0.0, 0.1], [0.8, 0.4])
    _, estimates = brac_v.divergence(ours, logs, KEY, jnp.zeros((10_000, 2)), 5)
    ratio, apart = np.asarray([0.5 / 0.8, 0.3 / 0.4]), np.asarray([0.2 / 0.8, 0.2 / 0.4])
    exact = np.sum(0.5 * (ratio**2 + apart**2 - 1) - np.log(ratio))  # squashing changes both densities alike
    assert float(jnp.mean(estimates)) == pytest.approx(exact, abs=0.02)


def test_the_divergence_grows_as_the_policy_leaves_the_box():
    logs = constant_policy([0.0, 0.0], [0.8, 0.4])

    def estimate(mean):
        ours = constant_policy([mean, 0.0], [0.5, 0.4])  # in the second component as the clone
        return float(jnp.mean(brac_v.divergence(ours, logs, KEY, jnp.zeros((10_000, 2)), 5)[1]))

    # Out there log(1 − tanh²u) is 2 (log 2 − u). The clone is asked at 0.999, wherever the action lies.
    policy = -0.5 * np.log(2 * np.pi * np.e * 0.5**2) - 2 * (np.log(2) - 9)
    inside = np.arctanh(0.999)
    clone = -0.5 * (inside / 0.8) ** 2 - np.log(0.8) - 0.5 * np.log(2 * np.pi) - np.log(1 - 0.999**2)
    assert estimate(9.0) == pytest.approx(policy - clone, abs=0.1)
    assert estimate(10.0) - estimate(9.0) == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("warm", [True, False])
def test_brac_penalises_the_target_and_the_actor_which_follows_the_value_once_warm(warm):
    log, config = log_for("brac-v"), tiny("brac-v")
    state = dataclasses.replace(begin("brac-v", log, config), step=jnp.asarray(config.warmup - (not warm)))
    following, info = advance("brac-v", state, log, config)
    draw_key, clone_key, next_key, key = jax.random.split(KEY, 4)
    _, batch = log.draw(draw_key, config.batch)
    clone = following.clone.network
    policy, count = state.actor.network, config.samples
    actions, diverged = brac_v.divergence(policy, clone, next_key, batch.next_observations, count)
    value = state.target_critics.least(batch.next_observations, actions) - config.weight * diverged
    expected = squares(state.critics.network, batch, target(batch, value))
    assert float(info.critic_loss) == pytest.approx(expected, rel=1e-4)
    actions, diverged = brac_v.divergence(policy, clone, key, batch.observations, count)
    q = following.critics.network.least(batch.observations, actions)
    expected = float(jnp.mean(config.weight * diverged - warm * q))
    assert float(info.actor_loss) == pytest.approx(expected, rel=1e-4)
    logged = state.clone.network.log_density(batch.observations, batch.actions, 1e-3)
    own = state.clone.network.sample(clone_key, batch.observations, 1).log_density
    assert float(info.clone_loss) == pytest.approx(float(jnp.mean(own) - jnp.mean(logged)), rel=1e-4)


@pytest.mark.parametrize(
    ("log_deviation", "start", "direction"), [(0.0, 1.0, -1), (-4.0, 1.0, 1), (0.0, 0.0, 0)]
)
def test_bracs_clone_is_held_at_an_entropy_of_minus_its_width(log_deviation, start, direction):
    log, config = log_for("brac-v"), tiny("brac-v")
    state = begin("brac-v", log, config)
    clone = constant_policy([0.0, 0.0], jnp.exp(jnp.full(2, log_deviation)))
    state = dataclasses.replace(
        state,
        clone=Learner.init(clone, optax.adam(config.clone_rate)),
        entropy_weight=Learner.init(jnp.asarray(start), optax.adam(config.clone_rate)),
    )
    following, _ = advance("brac-v", state, log, config)
    moved = float(following.entropy_weight.network) - start
    assert moved == pytest.approx(direction * config.clone_rate, rel=1e-3)  # Adam's first step; never below 0


# BCQ.


def test_a_perturbation_moves_an_action_by_its_reach_at_most_and_never_out_of_the_box():
    moves = bcq.Perturbation.init(KEY, (2,), SPACE, Layers((8, 8)), 0.05)
    actions = SPACE.from_unit(jax.random.uniform(KEY, (50, 6, 2), minval=-1, maxval=1))
    moved = moves(jnp.zeros((6, 2)), actions)
    change = np.abs(to_units(np.asarray(moved)) - to_units(np.asarray(actions)))
    assert 0 < change.max() <= 0.05 + 1e-6
    assert (
        np.abs(to_units(np.asarray(moves(jnp.zeros((6, 2)), actions * 0 + jnp.asarray(SPACE.high))))).max()
        <= 1
    )


def test_bcqs_losses_are_as_printed():
    log, config = log_for("bcq"), tiny("bcq")
    state = begin("bcq", log, config)
    following, info = advance("bcq", state, log, config)
    keys = jax.random.split(KEY, 4)
    _, batch = log.draw(keys[0], config.batch)
    proposed = following.vae.network.sample(keys[2], batch.next_observations, config.samples)
    there = state.target_perturbation(batch.next_observations, proposed)
    value = most_mixed_value(state.target_critics, batch.next_observations, there, 0.75)
    expected = squares(state.critics.network, batch, target(batch, value))
    assert float(info.critic_loss) == pytest.approx(expected, rel=1e-4)
    proposal = following.vae.network.sample(keys[3], batch.observations, 1)
    here = state.perturbation.network(batch.observations, proposal)[0]
    q = following.critics.network.first(batch.observations, here)
    assert float(info.actor_loss) == pytest.approx(-float(jnp.mean(q)), rel=1e-4)


def test_bcqs_model_is_judged_by_what_it_rebuilds_and_by_its_latents():
    log, config = log_for("bcq"), tiny("bcq")
    state = begin("bcq", log, config)
    _, info = advance("bcq", state, log, config)
    keys = jax.random.split(KEY, 4)
    _, batch = log.draw(keys[0], config.batch)
    vae = state.vae.network
    mean, log_deviation = (np.asarray(x, np.float64) for x in vae.encode(batch.observations, batch.actions))
    latents = mean + np.exp(log_deviation) * np.asarray(jax.random.normal(keys[1], mean.shape))
    decoded = np.tanh(vae.decode(batch.observations, jnp.asarray(latents[None], jnp.float32))[0])
    apart = np.mean((decoded - to_units(np.asarray(batch.actions))) ** 2)
    divergence = np.mean(-0.5 * (1 + 2 * log_deviation - mean**2 - np.exp(2 * log_deviation)))
    assert float(info.vae_loss) == pytest.approx(apart + 0.5 * divergence, rel=1e-4)
