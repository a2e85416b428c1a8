"""What every method must do, whichever it is."""

import dataclasses
import functools
import typing
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import partial_eval

from agent_cases import SPACE, advance, begin, dataset_for, reward, same, tiny, to_units, toy_log
from ploff import ActionSpace, agents
from ploff.training.loop import TrainingRun
from ploff.utils.errors import PloffError

BESIDE = {
    "ploff": {"bonus": "density", "critic_bonus_weight": 0.5, "num_neighbors": 3},
    "pic": {"num_neighbors": 3},
}  # settings without which others mean nothing
every_method = pytest.mark.parametrize("name", agents.METHODS)


@functools.cache
def the_dataset(name: str, reward_scale: Any = None):
    return dataset_for(name, reward_scale=reward_scale)


@functools.cache
def start(name: str):
    return begin(name, the_dataset(name), tiny(name))


def policy(name: str, state: Any):
    return agents.get_method(name).policy(state)


def train(name: str, steps: int, **options: Any) -> Any:
    """The arrays of the state after so many updates."""
    return eqx.filter(
        advance(name, start(name), the_dataset(name), tiny(name), steps=steps, **options)[0], eqx.is_array
    )


@every_method
def test_actions_have_their_shape_and_lie_in_the_box(name):
    act = policy(name, start(name))
    for count in (1, 6):
        actions = act(3 * jax.random.normal(jax.random.key(count), (count, 2)))
        assert actions.shape == (count, 2)
        assert actions.dtype == jnp.float32
        assert jnp.all(actions >= jnp.asarray(SPACE.low) - 1e-5)
        assert jnp.all(actions <= jnp.asarray(SPACE.high) + 1e-5)


@every_method
def test_an_action_depends_on_its_own_observation_alone(name):
    act = policy(name, start(name))
    observations = jax.random.normal(jax.random.key(0), (6, 2))
    together = act(observations)
    alone = jnp.concatenate([act(row[None]) for row in observations])
    np.testing.assert_allclose(together, alone, atol=1e-5)


@every_method
def test_a_seed_decides_everything(name):
    first = train(name, 5, seed=1)
    assert same(first, train(name, 5, seed=1))
    assert not same(first, train(name, 5, seed=2))


@every_method
def test_a_run_that_was_cut_off_ends_as_one_that_was_not(name, tmp_path):
    def begun(checkpoint):
        return TrainingRun(name, start(name), checkpoint=checkpoint)

    def trained(run, steps):
        update = agents.get_method(name).update_fn(tiny(name))
        for _ in run.updates(update, (the_dataset(name),), steps=steps, seed=3, scan_length=1):
            pass
        run.save()
        return run.state

    whole = trained(begun(None), 9)
    trained(begun(tmp_path / "cut.eqx"), 4)
    resumed = begun(tmp_path / "cut.eqx")
    assert resumed.step == 4
    assert same(eqx.filter(whole, eqx.is_array), eqx.filter(trained(resumed, 9), eqx.is_array))


@every_method
def test_nothing_is_bootstrapped_from_behind_a_terminal_and_something_is_behind_a_timeout(name):
    # CQL draws some of the actions that it values from the policy in the next state: that is no bootstrap.
    config = tiny(name, cql_alpha=0.0) if name == "cql" else tiny(name)
    data = toy_log()

    def learned(flags):
        observations = np.array(data.observations)
        observations[np.asarray(data.successors)[flags]] += 5.0
        dataset = dataset_for(name, dataclasses.replace(data, observations=observations))
        return eqx.filter(advance(name, start(name), dataset, config, steps=5)[0], eqx.is_array)

    untouched = learned(np.zeros(len(data), bool))
    assert same(untouched, learned(np.asarray(data.terminals)))
    assert same(untouched, learned(np.asarray(data.timeouts))) == (name == "bc")


@every_method
def test_an_update_tells_finite_numbers_by_the_same_names(name):
    _, info = advance(name, start(name), the_dataset(name), tiny(name))
    assert "actor_loss" in info
    assert name == "bc" or {"critic_loss", "mean_q", "max_q"} <= set(info)
    for value in info.values():
        assert value.shape == ()
        assert jnp.isfinite(value)


@every_method
def test_it_learns_to_do_better_than_the_log_and_far_better_than_chance(name):
    # Nothing holds plain TD3 to the log: it learns where the log is everywhere.
    data = toy_log(everywhere=name == "td3-off")
    state, _ = advance(name, start(name), dataset_for(name, data), tiny(name), steps=500)
    rng = np.random.default_rng(7)
    observations = rng.uniform(-1, 1, (500, 2))
    unit = to_units(policy(name, state)(jnp.asarray(observations, jnp.float32)))
    chance = reward(observations, rng.uniform(-1, 1, (500, 2))).mean()
    reached = reward(observations, unit).mean()
    assert reached > data.rewards.mean()
    assert 1 - reached < 0.4 * (1 - chance)


def fields() -> list[tuple[str, str]]:
    names = [(name, field.name) for name, m in agents.METHODS.items() for field in dataclasses.fields(m.config())]
    # A second name for the same file, and settings that come from TD3 unchanged, need no second try.
    inherited = {field.name for field in dataclasses.fields(agents.get_method("td3-off").config())}
    again = {"td3-bc": inherited, "rebrac": inherited, "prdc": inherited}
    return [(m, f) for m, f in names if m != "ploff-l2" and f not in again.get(m, set())]


@pytest.mark.parametrize(("name", "field"), fields())
def test_every_setting_is_part_of_what_is_computed(name, field):
    config = tiny(name, **BESIDE.get(name, {}))
    changed = dataclasses.replace(config, **{field: another(config, field)})
    assert program(name, config) != program(name, changed)


@functools.cache
def program(name: str, config: Any) -> tuple[str, ...]:
    """How rewards are seen, how the state is made and how it is updated, without what leads nowhere."""
    method, key = agents.get_method(name), jax.random.key(0)
    dataset = the_dataset(name, getattr(config, "reward_scale", None))
    shapes = eqx.filter_eval_shape(method.init, key, dataset, config)
    arrays, static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def following(arrays: Any, key: Any) -> Any:
        return eqx.filter(method.update_fn(config)(eqx.combine(arrays, static), dataset, key)[0], eqx.is_array)

    traced = jax.make_jaxpr(following)(arrays, key).jaxpr
    needed, _ = partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))
    return str(dataset.data.reward_normalizer.to_json()), str(shapes), str(needed)


def another(config: Any, field: str) -> Any:
    """Another value that the setting may have."""
    value, kind = getattr(config, field), typing.get_type_hints(type(config))[field]
    if value is None:
        return 3 if int in typing.get_args(kind) else 0.5
    if typing.get_origin(kind) is typing.Literal:
        return next(choice for choice in typing.get_args(kind) if choice != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return (8, *value[1:])
    return value + 1 if isinstance(value, int) else 0.5 * value or 0.5


@pytest.mark.parametrize("name", ["ploff", "cql", "bcq"])  # deterministic, with a density, with a decoder
def test_an_action_that_never_varies_stays_as_it_was_logged(name):
    data = toy_log()
    actions = np.asarray(data.actions).copy()
    actions[:, 1] = 0.25
    low, high = actions.min(axis=0), actions.max(axis=0)
    data = dataclasses.replace(data, actions=actions, action_space=ActionSpace.box(low, high))
    dataset, config = dataset_for(name, data), tiny(name)
    state, info = advance(name, begin(name, dataset, config), dataset, config, steps=2)
    chosen = np.asarray(policy(name, state)(data.states(np.arange(20))))
    np.testing.assert_array_equal(chosen[:, 1], 0.25)
    assert np.isfinite(chosen).all()
    assert all(np.isfinite(x).all() for x in info.values())


@every_method
def test_settings_that_cannot_be_are_refused_in_one_line(name):
    with pytest.raises(PloffError, match="batch_size"):
        tiny(name, batch_size=0)
    with pytest.raises(PloffError, match="actor_lr"):
        tiny(name, actor_lr=0.0)
    with pytest.raises(PloffError, match="unknown setting"):
        tiny(name, unheard_of=1)
