import dataclasses
import warnings

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from ploff.actions import ActionSpace
from ploff.transitions import UNKNOWN, Normalizer, Transitions
from ploff.utils.errors import PloffWarning

few = settings(max_examples=50, deadline=None)
fewer = settings(max_examples=8, deadline=None)  # every shape is compiled anew
gather = jax.jit(lambda transitions, rows: transitions.batch(rows))


@st.composite
def logs(draw, discrete=None):
    """Rows of a log: chained states, with breaks, in any float type, ended by random flags."""
    count, width = draw(st.integers(1, 25)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    states = random.choice([-1.5, -0.0, 0.0, 0.25, 3.0], (count, width)).astype(dtype)
    following = np.concatenate([states[1:], random.standard_normal((1, width)).astype(dtype)])
    broken = random.random(count) < draw(st.sampled_from([0.0, 0.3]))
    following[broken] = random.standard_normal((int(broken.sum()), width))
    terminals, timeouts = random.random((2, count)) < draw(st.sampled_from([0.0, 0.2, 0.6]))
    if discrete if discrete is not None else draw(st.booleans()):
        actions, space = random.integers(0, 4, count), ActionSpace.discrete(4)
    else:
        actions, space = random.uniform(-1, 1, (count, 2)).astype(dtype), ActionSpace.box([-1, -1], [1, 1])
    return {
        "observations": states,
        "next_observations": following,
        "actions": actions,
        "rewards": random.standard_normal(count).astype(dtype),
        "terminals": terminals,
        "timeouts": timeouts,
        "action_space": space,
        "infos": {"row": np.arange(count)},
    }


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def ends_by_hand(log):
    last = len(log["rewards"]) - 1
    return [i for i in range(last + 1) if log["terminals"][i] or log["timeouts"][i] or i == last]


@few
@given(logs())
def test_next_observations_are_what_was_put_in(log):
    assert same_bits(Transitions.from_rows(**log).next_observations(), log["next_observations"])


@few
@given(logs())
def test_a_state_is_stored_once(log):
    transitions = Transitions.from_rows(**log)
    ends = set(ends_by_hand(log))
    apart = [
        i
        for i in range(len(transitions))
        if i in ends or log["next_observations"][i].tobytes() != log["observations"][i + 1].tobytes()
    ]
    assert transitions.num_states == len(transitions) + len(apart)
    assert sorted(np.flatnonzero(transitions.successors >= len(transitions))) == apart


@few
@given(logs())
def test_without_next_observations_the_order_tells_all_but_the_last_successors(log):
    log["next_observations"] = None
    transitions = Transitions.from_rows(**log)
    ends = ends_by_hand(log)
    following = transitions.next_observations()
    assert transitions.num_states == len(transitions)
    assert np.flatnonzero(transitions.successors == UNKNOWN).tolist() == ends
    for row in range(len(transitions)):
        expected = np.full_like(following[row], np.nan) if row in ends else log["observations"][row + 1]
        np.testing.assert_array_equal(following[row], expected)


@few
@given(logs(), st.integers(1, 7))
def test_successors_may_come_in_blocks(log, size):
    whole = Transitions.from_rows(**log)
    rows = log["next_observations"]
    log["next_observations"] = (rows[i : i + size] for i in range(0, len(rows), size))
    in_blocks = Transitions.from_rows(**log)
    assert jax.tree.all(jax.tree.map(same_bits, whole, in_blocks))


@few
@given(logs(), st.integers(0, 2**32 - 1))
def test_a_successor_that_was_not_logged_is_unknown_at_an_end_and_the_next_row_inside(log, seed):
    known = np.random.default_rng(seed).random(len(log["rewards"])) < 0.5
    transitions = Transitions.from_rows(**log, known=known)
    for row in np.flatnonzero(~known):
        expected = UNKNOWN if row in ends_by_hand(log) else row + 1
        assert transitions.successors[row] == expected
    assert same_bits(transitions.next_observations()[known], log["next_observations"][known])


@few
@given(logs())
def test_episodes_are_derived_from_the_flags(log):
    transitions, ends = Transitions.from_rows(**log), ends_by_hand(log)
    starts = [0, *[end + 1 for end in ends[:-1]]]
    assert transitions.episode_ends().tolist() == ends
    assert transitions.episode_starts().tolist() == starts
    assert transitions.episode_lengths().tolist() == [e - s + 1 for s, e in zip(starts, ends, strict=True)]
    returns = [log["rewards"][s : e + 1].astype(np.float64).sum() for s, e in zip(starts, ends, strict=True)]
    np.testing.assert_allclose(transitions.episode_returns(), returns, atol=1e-12)
    for row in range(len(transitions)):
        episode, step = transitions.locate(row)
        assert starts[episode] + step == row <= ends[episode]


@few
@given(logs(), st.data())
def test_selected_episodes_are_the_same_rows_and_successors(log, data):
    transitions = Transitions.from_rows(**log)
    starts, ends = transitions.episode_starts(), transitions.episode_ends()
    chosen = data.draw(st.lists(st.integers(0, len(ends) - 1), unique=True, max_size=5))
    selection = transitions.select_episodes(chosen)
    rows = [row for episode in chosen for row in range(starts[episode], ends[episode] + 1)]
    assert selection.infos["row"].tolist() == rows
    assert len(selection.episode_ends()) == len(chosen)
    assert selection.episode_lengths().tolist() == transitions.episode_lengths()[chosen].tolist()
    for name in ("actions", "rewards", "terminals"):
        assert same_bits(getattr(selection, name), log[name][rows])
    assert same_bits(selection.observations[: len(rows)], log["observations"][rows])
    assert same_bits(selection.next_observations(), log["next_observations"][rows])


def test_a_cut_episode_stays_apart_from_the_one_that_is_put_behind_it():
    log = {
        "observations": np.arange(4.0)[:, None],
        "actions": np.zeros((4, 1)),
        "rewards": np.zeros(4),
        "terminals": np.array([False, True, False, False]),
        "timeouts": np.zeros(4, bool),
    }
    turned = Transitions.from_rows(**log, action_space=ActionSpace.box(-1, 1)).select_episodes([1, 0])
    assert turned.episode_ends().tolist() == [1, 3]
    assert turned.timeouts.tolist() == [False, True, False, False]
    assert turned.terminals.tolist() == [False, False, False, True]
    assert turned.successors.tolist() == [1, UNKNOWN, 3, UNKNOWN]


def test_a_timeout_is_not_a_terminal():
    transitions = Transitions.from_rows(
        observations=np.arange(3.0)[:, None],
        next_observations=np.arange(1.0, 4.0)[:, None],
        actions=np.zeros((3, 1)),
        rewards=np.zeros(3),
        terminals=np.array([False, False, True]),
        timeouts=np.array([False, True, False]),
        action_space=ActionSpace.box(-1, 1),
    )
    batch = transitions.batch(jnp.arange(3))
    assert batch.terminals.tolist() == [False, False, True]
    assert batch.next_observations.ravel().tolist() == [
        1.0,
        2.0,
        3.0,
    ]  # the cut one leads on to its own successor


@fewer
@given(logs())
def test_a_batch_inside_jit_is_what_numpy_gathers(log):
    transitions = Transitions.from_rows(**log)
    rows = np.random.default_rng(0).integers(0, len(transitions), 9)
    batch = gather(transitions.to_device(), jnp.asarray(rows))
    encoded = np.eye(4)[log["actions"][rows]] if log["actions"].ndim == 1 else log["actions"][rows]
    for seen, expected in (
        (batch.observations, log["observations"][rows]),
        (batch.next_observations, log["next_observations"][rows]),
        (batch.actions, encoded),
        (batch.rewards, log["rewards"][rows]),
        (batch.terminals, log["terminals"][rows]),
    ):
        np.testing.assert_array_equal(np.asarray(seen), expected.astype(seen.dtype))


@fewer
@given(logs())
def test_an_unknown_successor_reads_as_the_state_and_has_no_target_unless_terminal(log):
    log["next_observations"] = None
    transitions = Transitions.from_rows(**log)
    unknown = np.flatnonzero(transitions.successors == UNKNOWN)
    batch = gather(transitions.to_device(), jnp.asarray(unknown))
    np.testing.assert_array_equal(np.asarray(batch.next_observations), np.asarray(batch.observations))
    assert not set(unknown) & set(transitions.rows_with_successor().tolist())
    with_target = set(transitions.rows_with_target().tolist())
    assert with_target == set(range(len(transitions))) - {r for r in unknown if not log["terminals"][r]}


@fewer
@given(logs())
def test_units_are_reversible_and_leave_the_log_alone(log):
    transitions = Transitions.from_rows(**log)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PloffWarning)  # a log of one row has equal rewards
        scaled = transitions.with_unit_rewards().with_normalized_observations()
    batch = gather(scaled.to_device(), jnp.arange(len(transitions)))
    assert np.abs(np.asarray(batch.rewards)).max() <= 1 + 1e-6
    if not log["terminals"].any():
        assert np.asarray(batch.rewards).min() >= -1e-6
    np.testing.assert_allclose(
        scaled.reward_normalizer.denormalize(np.asarray(batch.rewards)), log["rewards"], atol=1e-5
    )
    np.testing.assert_allclose(
        scaled.observation_normalizer.denormalize(np.asarray(batch.observations)), log["observations"], atol=1e-5
    )
    assert jax.tree.all(jax.tree.map(same_bits, transitions, scaled.in_original_units()))
    np.testing.assert_array_equal(scaled.episode_returns(), transitions.episode_returns())


def test_normalized_observations_have_mean_0_and_deviation_1_over_the_states_acted_in():
    random = np.random.default_rng(0)
    states = random.normal([100.0, -3.0, 7.0], [5.0, 0.1, 0.0], (1000, 3))
    transitions = Transitions.from_rows(
        observations=states[:-1],
        next_observations=states[1:],
        actions=np.zeros((999, 1)),
        rewards=np.arange(999.0),
        terminals=np.zeros(999, bool),
        timeouts=np.zeros(999, bool),
        action_space=ActionSpace.box(-1, 1),
    ).with_normalized_observations()
    seen = np.asarray(transitions.batch(jnp.arange(999)).observations, np.float64)
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(seen.std(axis=0), [1, 1, 0], atol=1e-3)  # what hardly moves is not blown up


def short_log(rewards=(0.0, 0.0), observations=None, *, terminal=True, **options):
    """One episode."""
    last = np.arange(len(rewards)) == len(rewards) - 1
    return Transitions.from_rows(
        observations=np.zeros((len(rewards), 1)) if observations is None else observations,
        actions=np.zeros((len(rewards), 1)),
        rewards=np.asarray(rewards),
        terminals=last & terminal,
        timeouts=last & (not terminal),
        action_space=ActionSpace.box(-1, 1),
        **options,
    )


def scaled_rewards(rewards, *, terminal):
    log = short_log(rewards, terminal=terminal).with_unit_rewards()
    return log.batch(jnp.arange(len(rewards))).rewards.tolist()


def test_equal_rewards_become_zeros_with_a_warning():
    with pytest.warns(PloffWarning, match="all rewards are 2"):
        assert scaled_rewards([2.0, 2.0, 2.0], terminal=False) == [0, 0, 0]
    with pytest.warns(PloffWarning, match="all rewards are 0"):
        assert scaled_rewards([0.0, 0.0], terminal=True) == [0, 0]


def test_an_end_that_is_worth_0_stays_better_than_costs_and_worse_than_staying_alive():
    assert scaled_rewards([-4.0, -2.0, 1.0], terminal=True) == [-1, -0.5, 0.25]
    assert scaled_rewards([-2.0, -2.0], terminal=True) == [-1, -1]
    assert scaled_rewards([2.0, 2.0], terminal=True) == [1, 1]
    # Where nothing ends, or most is gained, only differences matter.
    assert scaled_rewards([-4.0, -2.0, 0.0], terminal=False) == [0, 0.5, 1]
    assert scaled_rewards([-1.0, 1.0, 3.0], terminal=True) == [0, 0.5, 1]


def test_rewards_are_seen_in_their_own_size_or_so_that_returns_span_a_thousand():
    log = short_log([1.0, 2.0, 5.0], terminal=False)
    rows = jnp.arange(3)
    assert log.with_unit_rewards().with_scaled_rewards("none").batch(rows).rewards.tolist() == [1, 2, 5]
    # One episode has one return: no span to scale by.
    assert log.with_scaled_rewards("return_range").batch(rows).rewards.tolist() == [1, 2, 5]
    two = dataclasses.replace(log, timeouts=np.asarray([False, True, True]))  # returns 3 and 5
    assert two.with_scaled_rewards("return_range").batch(rows).rewards.tolist() == pytest.approx([500, 1000, 2500])
    assert two.with_scaled_rewards("unit").batch(rows).rewards.tolist() == [0, 0.25, 1]


def test_the_pixels_of_images_are_normalized_together():
    images = np.random.default_rng(0).integers(0, 255, (5, 6, 4, 3), np.uint8)
    seen = short_log(np.zeros(5), images).with_normalized_observations().to_device().states()
    np.testing.assert_allclose(seen, (images - images.mean()) / images.std(), atol=1e-5)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_whole_numbers_of_64_bits_do_not_wrap_around(kind):
    log = short_log(observations=np.array([[1_700_000_000_000], [1_700_000_500_000]], kind))
    seen = np.asarray(log.with_normalized_observations().to_device().states())
    np.testing.assert_allclose(seen[:, 0], [-1, 1], atol=0.3)  # as far as 32 bits tell them apart


def test_an_empty_selection_is_empty():
    nothing = short_log().select_episodes([])
    assert (len(nothing), nothing.num_states, len(nothing.episode_ends())) == (0, 0, 0)


def test_infos_stay_on_the_host():
    log = short_log(infos={"qpos": np.zeros((2, 30))})
    device = log.to_device()
    assert not device.infos
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(device))
    assert device.observations.dtype == jnp.float32
    assert dataclasses.replace(log, infos={}).nbytes() == log.nbytes() - 2 * 30 * 8


def test_a_normalizer_undoes_what_it_does():
    units = Normalizer(shift=np.asarray([1.0, -2.0]), scale=np.asarray([0.5, 4.0]))
    values = np.array([[3.0, 5.0], [0.0, 0.0]])
    np.testing.assert_allclose(units.denormalize(units.normalize(values)), values)
    np.testing.assert_allclose(units.normalize(values)[0], [4.0, 1.75])
