"""Evaluation: one episode a seed, the same for every number of environments side by side, compiled once."""

import io
import threading
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import Tracer
from rich.console import Console

from ploff.environments.crew import Crew
from ploff.environments.episodes import ROWS, run_episodes
from ploff.errors import PloffError
from ploff.evaluation import Evaluation, episode_seeds, evaluate


class Countdown(gym.Env):
    """Lasts as many steps as its seed modulo 7, plus 1; pays the action's first entry."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, fail_at: int | None = None, cut: bool = False):
        self.fail_at, self.cut, self.resets = fail_at, cut, 0

    def reset(self, *, seed: int | None = None, options: Any = None):
        assert seed is not None
        self.left, self.taken, self.resets = seed % 7 + 1, 0, self.resets + 1
        return self._observe(), {}

    def step(self, action: Any):
        self.taken, self.left = self.taken + 1, self.left - 1
        if self.taken == self.fail_at:
            raise RuntimeError("the motor burnt out")
        over = self.left == 0
        return self._observe(), float(action[0]), over and not self.cut, over and self.cut, {}

    def _observe(self):
        return np.array([self.left, self.taken], np.float64)


def half(observations):
    return np.full((len(observations), 1), 0.5)


def test_every_seed_has_exactly_one_episode_whatever_their_lengths():
    evaluation = evaluate(half, Countdown, episodes=40, seed=3)
    lengths = [seed % 7 + 1 for seed in episode_seeds(3, 40)]
    assert evaluation.lengths.tolist() == lengths
    np.testing.assert_allclose(evaluation.returns, np.array(lengths) * 0.5)


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


@pytest.mark.parametrize("kind", ["numpy", "jax"])
def test_returns_do_not_depend_on_how_many_environments_run_side_by_side(kind):
    pytest.importorskip("mujoco")
    draw = np.random.default_rng(0)
    layers = [draw.normal(size=shape).astype(np.float32) / 4 for shape in [(11, 64), (64, 64), (64, 3)]]
    library = np if kind == "numpy" else jnp

    def policy(observations):
        hidden = library.tanh(library.tanh(observations @ layers[0]) @ layers[1])
        return library.tanh(hidden @ layers[2])

    runs = [evaluate(policy, "hopper", episodes=18, parallel=parallel) for parallel in (1, 5, 16, 16)]
    assert runs[0].lengths.sum() > 18 * 5
    for run in runs[1:]:
        np.testing.assert_array_equal(run.returns, runs[0].returns)
        np.testing.assert_array_equal(run.lengths, runs[0].lengths)


def test_side_by_side_is_one_after_the_other():
    mujoco = pytest.importorskip("mujoco")
    del mujoco
    from ploff import environments

    gains = np.random.default_rng(1).normal(size=(11, 3)) * 0.1

    def policy(observations):
        return np.sin(observations[:, :, None] * gains).sum(axis=1)  # row by row, without a matrix product

    evaluation = evaluate(policy, "hopper", episodes=4, seed=5)
    env = environments.make("hopper")
    for number, seed in enumerate(episode_seeds(5, 4)):
        observation, _ = env.reset(seed=seed)
        total, steps, done = 0.0, 0, False
        while not done:
            action = policy(observation[None].astype(np.float32))[0].astype(np.float32)
            observation, reward, terminal, cut, _ = env.step(action)
            total, steps, done = total + float(reward), steps + 1, terminal or cut
        assert evaluation.lengths[number] == steps
        assert evaluation.returns[number] == pytest.approx(total, rel=1e-12)


def test_the_same_seed_gives_the_same_returns_and_another_seed_others():
    pytest.importorskip("mujoco")

    def policy(observations):
        return jnp.sin(observations[:, :3])

    first, again, other = (evaluate(policy, "hopper", episodes=3, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.returns, again.returns)
    assert not np.array_equal(first.returns, other.returns)


def test_seeds_share_no_episode_and_more_episodes_begin_with_the_same():
    assert not set(episode_seeds(0, 100)) & set(episode_seeds(1, 100))
    assert episode_seeds(7, 100)[:10] == episode_seeds(7, 10)
    with pytest.raises(PloffError, match="not negative"):
        episode_seeds(-1, 2)


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


@pytest.mark.parametrize("threads", [0, 2])
def test_a_failing_environment_gives_one_error_that_says_where(threads, monkeypatch):
    monkeypatch.setattr("ploff.environments.episodes._extra_threads", lambda lanes: threads)
    before = threading.active_count()
    with pytest.raises(
        PloffError, match=r"failed at step \d of the episode with seed \d+: RuntimeError: the motor"
    ):
        evaluate(half, lambda: Countdown(fail_at=2), episodes=30)
    assert threading.active_count() == before


def test_an_interruption_leaves_no_thread_behind(monkeypatch):
    monkeypatch.setattr("ploff.environments.episodes._extra_threads", lambda lanes: 3)
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


def test_a_crew_steps_every_piece_once_a_round():
    class Piece:
        steps = 0

        def step(self):
            self.steps += 1

    pieces = [Piece() for _ in range(9)]
    with Crew(3) as crew:
        for _ in range(200):
            crew.step_all(pieces)
    assert [piece.steps for piece in pieces] == [200] * 9


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


def test_counts_that_make_no_sense_are_refused():
    with pytest.raises(PloffError, match="at least one episode"):
        evaluate(half, Countdown, episodes=0)
    with pytest.raises(PloffError, match="1 to 16 side by side"):
        evaluate(half, Countdown, parallel=0)


def test_an_evaluation_reports_scores_and_survives_json():
    evaluation = evaluate(half, Countdown, episodes=6, references=(0.0, 2.0))
    assert evaluation.scores is not None
    np.testing.assert_allclose(evaluation.scores, evaluation.returns * 50)
    again = Evaluation.from_json(evaluation.to_json())
    assert again.to_json() == evaluation.to_json()
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(evaluation)
    text = console.export_text()
    assert "normalised score" in text
    assert f"{evaluation.mean_return:,.1f}" in text


def test_d4rls_environments_are_scored_by_their_references():
    pytest.importorskip("mujoco")
    evaluation = evaluate(lambda observations: np.zeros((len(observations), 3)), "hopper", episodes=2)
    assert evaluation.references == (-20.272305, 3234.3)
    assert evaluation.mean_score == pytest.approx(100 * (evaluation.mean_return + 20.272305) / 3254.572305)
