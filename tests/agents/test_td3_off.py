"""PLOff without its bonus: the same agent otherwise, and a policy that is an average."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_cases import advance, begin, dataset_for, same, tiny
from ploff import agents
from ploff.agents import td3, td3_off
from ploff.agents.ploff import PloffConfig
from ploff.agents.td3 import TD3Config
from ploff.agents.td3_off import TD3OffConfig
from ploff.utils.errors import PloffError

BONUS = {
    "bonus", "critic_form", "actor_bonus_weight", "critic_bonus_weight", "num_neighbors", "beta", "value_temperature",
    "state_kernel", "distance_unit", "value_scale", "deviation",
}  # fmt: skip


def fields(config):
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


@pytest.mark.parametrize("family", [None, "locomotion", "hand", "other"])
def test_td3_off_is_ploff_minus_its_bonus_and_ploff_l2_differs_in_the_distance_alone(family):
    methods = [agents.get_method(name) for name in ("ploff", "ploff-l2", "td3-off")]
    ploff, l2, off = (fields(method.config(paper=family)) for method in methods)
    assert ploff == l2
    assert off == {name: value for name, value in ploff.items() if name not in BONUS}
    assert set(ploff) - set(off) == BONUS
    assert [method.distance for method in methods] == ["learned", "l2", "none"]
    assert len({method.relevance for method in methods}) == 1  # they see the same observations


def test_without_a_weight_on_the_bonus_ploff_is_td3_off_to_the_last_bit():
    dataset = dataset_for("ploff")
    printed = {"actor_bonus_weight": 0.0, "value_scale": "none"}
    config = tiny("ploff", policy_delay=1, **printed)
    ploff_state, _ = advance("ploff", begin("ploff", dataset, config), dataset, config, steps=4)
    config = tiny("td3-off", policy_delay=1)
    state, _ = advance("td3-off", begin("td3-off", dataset, config), dataset, config, steps=4)
    for name in ("actor", "critics", "averaged_actor"):
        assert same(getattr(ploff_state, name), getattr(state, name)), name


def test_td3_of_its_own_paper_is_a_matter_of_settings():
    dataset = dataset_for("td3-off", reward_scale="none")
    settings = {"activation": "relu", "layer_norm": False, "tau": 0.005, "policy_ema": 0.0, "reward_scale": "none"}
    config = tiny("td3-off", **settings)
    state, _ = advance("td3-off", begin("td3-off", dataset, config), dataset, config, steps=3)
    known = {field.name for field in dataclasses.fields(TD3Config)}
    plain = TD3Config(**{name: value for name, value in fields(config).items() if name in known})
    expected = td3.init(jax.random.key(0), dataset, plain)
    for number in range(3):
        key = jax.random.fold_in(jax.random.key(0), number)
        expected, _ = jax.jit(td3.update, static_argnums=3)(expected, dataset, key, plain)
    for name in ("actor", "critics"):
        for one, other in zip(*(jax.tree.leaves(getattr(x, name)) for x in (state, expected)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert same(td3_off.policy(state), state.actor.params)


def test_the_average_has_a_share_between_0_and_1():
    with pytest.raises(PloffError, match="policy_ema must lie in"):
        TD3OffConfig(policy_ema=1.5)
    assert issubclass(PloffConfig, TD3OffConfig)


def last_weight(actor):
    return np.asarray(actor.mlp.layers[-1].weight)


def test_the_policy_is_a_moving_average_whose_memory_is_a_share_of_training():
    dataset = dataset_for("td3-off")
    config = tiny("td3-off", policy_delay=2, policy_ema=0.5)
    state = begin("td3-off", dataset, config)
    average = last_weight(state.actor.params)
    for step in range(1, 11):
        state, _ = advance("td3-off", state, dataset, config, first=step - 1)
        if step % 2 == 0:
            actor = last_weight(state.actor.params)
            average = average + (actor - average) / max(1.0, 0.5 * (step // 2))
        np.testing.assert_allclose(last_weight(state.averaged_actor), average, rtol=1e-5, atol=1e-7)
    observations = dataset.data.states(jnp.arange(3))
    policy = td3_off.policy(state)
    np.testing.assert_array_equal(policy(observations), state.averaged_actor(observations))
    assert not np.allclose(policy(observations), state.actor.params(observations))


def test_without_averaging_the_policy_is_the_actor():
    dataset, config = dataset_for("td3-off"), tiny("td3-off", policy_delay=1, policy_ema=0.0)
    state, _ = advance("td3-off", begin("td3-off", dataset, config), dataset, config, steps=3)
    policy, actor = jax.tree.leaves(td3_off.policy(state)), jax.tree.leaves(state.actor.params)
    assert all(np.array_equal(a, b) for a, b in zip(policy, actor, strict=True))
