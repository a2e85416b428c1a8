"""Policies of every kind, compiled once, in environments that may fail."""

import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import Tracer

from environment_cases import Countdown, half
from ploff.environments.evaluation import episode_seeds, evaluate
from ploff.environments.rollouts import ROWS, run_episodes
from ploff.utils.errors import PloffError


def test_no_environment_is_reset_for_an_episode_that_is_not_counted():
    envs = [Countdown() for _ in range(5)]
    episodes = list(run_episodes(half, envs, episode_seeds(0, 23)))
    assert sorted(episode.number for episode in episodes) == list(range(23))
    assert sum(env.resets for env in envs) == 23


def test_the_policy_always_gets_the_same_number_of_rows_in_single_precision():
    shapes = set()

    def watched(observations):
        shapes.add((observations.shape, observations.dtype))
        return half(observations)

    for episodes, parallel in [(1, 1), (10, 3), (40, None)]:
        evaluate(watched, Countdown, episodes=episodes, parallel=parallel)
    assert shapes == {((ROWS, 2), np.dtype(np.float32))}


def test_a_function_is_traced_once_for_all_its_evaluations():
    traces = []

    def policy(observations):
        if isinstance(observations, Tracer):
            traces.append(observations.shape)
        return jnp.tanh(observations[:, :1])

    for episodes in (1, 5, 20):
        evaluate(policy, Countdown, episodes=episodes)
    assert traces == [(ROWS, 2)]


def test_a_jitted_function_is_used_as_it_is():
    traces = []

    @jax.jit
    def policy(observations):
        traces.append(observations.shape)
        return jnp.tanh(observations[:, :1])

    evaluate(policy, Countdown, episodes=1)
    evaluate(policy, Countdown, episodes=20)
    assert traces == [(ROWS, 2)]


TRACES = []


class Gain(eqx.Module):
    gain: jax.Array

    def __call__(self, observations):
        TRACES.append(observations.shape)
        return observations[:, :1] * self.gain


def test_new_parameters_in_a_module_compile_nothing():
    TRACES.clear()
    returns = [evaluate(Gain(jnp.asarray(gain)), Countdown, episodes=4).mean_return for gain in (0.01, 0.02)]
    assert TRACES == [(ROWS, 2)]
    assert returns[1] == pytest.approx(2 * returns[0])


def test_a_policy_with_a_generator_of_its_own_is_not_frozen_by_compilation():
    draw, seen = np.random.default_rng(0), []

    def policy(observations):
        seen.append(draw.uniform(-1, 1, (len(observations), 1)))
        return seen[-1]

    evaluation = evaluate(policy, Countdown, episodes=2)
    assert len(seen) == evaluation.lengths.max()
    assert len({actions[0, 0] for actions in seen}) == len(seen)


def test_a_jax_policy_that_cannot_be_jitted_still_works():
    def policy(observations):
        return jnp.full((len(observations), 1), 0.25 if float(observations[0, 1]) < 100 else 0.5)

    evaluation = evaluate(policy, Countdown, episodes=3)
    np.testing.assert_allclose(evaluation.returns, evaluation.lengths * 0.25)


def test_actions_are_clipped_to_the_environments_bounds():
    evaluation = evaluate(lambda observations: np.full((len(observations), 1), 9.0), Countdown, episodes=3)
    np.testing.assert_allclose(evaluation.returns, evaluation.lengths)


@pytest.mark.parametrize("scores", [False, True])
def test_discrete_actions_are_choices_or_the_best_of_scores(scores):
    def lean(observations):
        choice = (observations[:, 2] > 0).astype(int)
        return np.eye(2)[choice] if scores else choice

    evaluation = evaluate(lean, "CartPole-v1", episodes=5)
    np.testing.assert_array_equal(evaluation.returns, evaluation.lengths)
    assert evaluation.mean_return > 20
    assert evaluation.scores is None


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda observations: np.zeros((len(observations), 2)), "must return actions of shape"),
        (lambda observations: np.full((len(observations), 1), np.nan), "returned NaN"),
    ],
)
def test_a_policy_that_returns_nonsense_is_told_so(policy, message):
    with pytest.raises(PloffError, match=message):
        evaluate(policy, Countdown)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_failing_environment_gives_one_error_that_says_where(threads, monkeypatch):
    monkeypatch.setattr("ploff.environments.rollouts._extra_threads", lambda lanes: threads)
    before = threading.active_count()
    with pytest.raises(PloffError, match=r"failed at step \d of the episode with seed \d+: RuntimeError: the motor"):
        evaluate(half, lambda: Countdown(fail_at=2), episodes=30)
    assert threading.active_count() == before


def test_an_interruption_leaves_no_thread_behind(monkeypatch):
    monkeypatch.setattr("ploff.environments.rollouts._extra_threads", lambda lanes: 3)
    before = threading.active_count()
    calls = []

    def interrupted(observations):
        calls.append(threading.active_count())
        if len(calls) == 3:
            raise KeyboardInterrupt
        return half(observations)

    with pytest.raises(KeyboardInterrupt):
        evaluate(interrupted, Countdown, episodes=30)
    assert calls[0] == before + 3
    assert threading.active_count() == before
