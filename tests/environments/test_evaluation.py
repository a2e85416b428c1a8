"""One episode a seed, the same for every number of environments side by side."""

import io

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from environment_cases import Countdown, half
from ploff.environments.evaluation import Evaluation, episode_seeds, evaluate
from ploff.utils.errors import PloffError


def test_every_seed_has_exactly_one_episode_whatever_their_lengths():
    evaluation = evaluate(half, Countdown, episodes=40, seed=3)
    lengths = [seed % 7 + 1 for seed in episode_seeds(3, 40)]
    assert evaluation.lengths.tolist() == lengths
    np.testing.assert_allclose(evaluation.returns, np.array(lengths) * 0.5)


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
    assert "normalized score" in text
    assert f"{evaluation.mean_return:,.1f}" in text


def test_d4rls_environments_are_scored_by_their_references():
    pytest.importorskip("mujoco")
    evaluation = evaluate(lambda observations: np.zeros((len(observations), 3)), "hopper", episodes=2)
    assert evaluation.references == (-20.272305, 3234.3)
    assert evaluation.mean_score == pytest.approx(100 * (evaluation.mean_return + 20.272305) / 3254.572305)
