"""Why an action is, or is not, close to the data."""

import json

import numpy as np
import pytest

from ploff.actions import ActionSpace
from ploff.neighbors import DataDistance, Euclidean, distances_to_others
from ploff.neighbors.explain import Explainer, read_observation
from ploff.neighbors.knn import Exhaustive
from ploff.transitions import Transitions
from ploff.utils.errors import DataError, PloffError


def log(count=120, seed=0, space=None, episode=30):
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    if space is not None:
        actions = rng.integers(0, space.n, count)
    return Transitions.from_rows(
        observations=rng.normal(size=(count, 3)).astype(np.float32) * 5 + 2,
        actions=actions,
        rewards=rng.uniform(10, 20, count).astype(np.float32),
        terminals=np.zeros(count, bool),
        timeouts=np.arange(count) % episode == episode - 1,
        action_space=space or ActionSpace.box([-1.0, -1.0], [1.0, 1.0]),
    )


def plain(data, policy=None, k=20):
    seen = data.with_normalized_observations().with_unit_rewards()
    near = Exhaustive(np.asarray(seen.states())).query(np.asarray(seen.states()), k)
    return Explainer(seen, DataDistance.init(Euclidean(), seen, near), policy)


def test_a_logged_action_is_explained_by_other_rows_in_the_environments_units():
    data = log()
    explanation = plain(data).row(35)
    rows = [item.row for item in explanation.evidence]
    assert 35 not in rows
    assert explanation.origin == "logged"
    np.testing.assert_array_equal(explanation.action, data.actions[35])
    for item in explanation.evidence:
        assert (item.episode, item.step) == divmod(item.row, 30)
        assert item.reward == pytest.approx(float(data.rewards[item.row]))
        np.testing.assert_array_equal(item.action, data.actions[item.row])
    distances = [item.distance for item in explanation.evidence]
    assert distances == sorted(distances)
    assert explanation.distance == distances[0]


def test_distances_are_those_that_numpy_finds():
    data = log()
    seen = data.with_normalized_observations()
    pairs = np.concatenate([np.asarray(seen.states()), data.actions], axis=1)
    explanation = plain(data, k=120).row(7, count=3)
    everyone = np.linalg.norm(pairs - pairs[7], axis=1)
    expected = np.argsort(everyone)[1:4]
    assert [item.row for item in explanation.evidence] == expected.tolist()
    np.testing.assert_allclose([item.distance for item in explanation.evidence], everyone[expected], rtol=1e-5)


def test_the_percentile_is_over_the_logs_own_distances():
    data = log()
    explainer = plain(data)
    own = distances_to_others(explainer.logged, sample=None)
    percentiles = [explainer.row(row).percentile for row in range(len(data))]
    ranks = [100 * np.mean(own <= own[row] * (1 + 1e-6)) for row in range(len(data))]
    np.testing.assert_allclose(percentiles, ranks, atol=200 / len(data) + 1e-6)  # mutual neighbors tie


def test_a_logged_pair_given_as_an_observation_is_at_distance_zero():
    data = log()
    explanation = plain(data).observation(data.observations[5], data.actions[5])
    assert explanation.evidence[0].row == 5
    assert explanation.distance == pytest.approx(0, abs=1e-5)
    assert explanation.percentile < 5


def test_an_action_far_from_everything_is_past_every_percentile():
    data = log()
    explanation = plain(data).observation(data.observations[5] + 100, data.actions[5])
    assert explanation.percentile == 100.0


def test_a_policys_action_is_explained_with_the_logged_one_among_the_evidence():
    data = log()
    seen = []

    def policy(observations):
        seen.append(observations)
        return data.actions[[9]]

    explainer = plain(data, policy)
    for explanation in (explainer.row(9), explainer.observation(data.observations[9])):
        assert explanation.origin == "policy"
        assert explanation.evidence[0].row == 9
        assert explanation.distance == pytest.approx(0, abs=1e-5)
    np.testing.assert_array_equal(seen[0][0], data.observations[9])


def test_choices_are_explained_as_they_were_logged():
    data = log(space=ActionSpace.discrete(3))
    explanation = plain(data).row(3)
    assert explanation.action.shape == ()
    assert all(item.action == data.actions[item.row] for item in explanation.evidence)


def test_all_discrete_actions_of_a_state_are_compared():
    data = log(space=ActionSpace.discrete(3))
    scored = []

    def scores(observations):
        scored.append(observations)
        return np.asarray([[0.5, -np.inf, 2.0]]), np.asarray([[0.25, 0.0, 0.75]])

    explainer = plain(data, lambda observations: np.asarray([2]))
    explainer.scores = scores
    explanation = explainer.row(3)
    assert [one.action for one in explanation.alternatives] == [0, 1, 2]
    logged = int(data.actions[3])
    distances = [one.distance for one in explanation.alternatives]
    assert distances[logged] == pytest.approx(0, abs=1e-5)
    assert distances[2] == pytest.approx(explanation.distance)
    alone = [explainer.observation(data.observations[3], np.asarray(action)).distance for action in range(3)]
    assert distances == pytest.approx(alone, abs=1e-5)
    assert [one.score for one in explanation.alternatives] == [0.5, -np.inf, 2.0]
    assert [one.probability for one in explanation.alternatives] == [0.25, 0.0, 0.75]
    np.testing.assert_array_equal(scored[0][0], data.observations[3])
    assert plain(log()).row(3).alternatives == []


def test_a_row_outside_the_log_is_refused():
    with pytest.raises(PloffError, match="rows 0 to 119"):
        plain(log()).row(120)


def test_an_observation_without_action_or_policy_is_refused():
    with pytest.raises(PloffError, match="no policy yet"):
        plain(log()).observation(np.zeros(3))


@pytest.mark.parametrize("suffix", ["npy", "json", "csv"])
@pytest.mark.parametrize("with_action", [False, True])
def test_observations_are_read_from_three_formats(tmp_path, suffix, with_action):
    numbers = [1.5, -2.0, 0.25] + ([0.5, -0.5] if with_action else [])
    path = tmp_path / f"x.{suffix}"
    if suffix == "npy":
        np.save(path, np.array(numbers))
    else:
        path.write_text(json.dumps(numbers) if suffix == "json" else ",".join(map(str, numbers)) + "\n")
    observation, action = read_observation(path, log())
    np.testing.assert_array_equal(observation, numbers[:3])
    assert (action is None) != with_action
    if action is not None:
        np.testing.assert_array_equal(action, numbers[3:])


def test_json_may_name_its_parts(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"observation": [1, 2, 3], "action": 2}))
    observation, action = read_observation(path, log(space=ActionSpace.discrete(3)))
    assert observation.tolist() == [1.0, 2.0, 3.0]
    assert action == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "[1, 2]", "holds 2 numbers; an observation has 3, with an action 5"),
        ("x.csv", "speed,angle,height\n1,2,3\n", "no observation that could be read"),
        ("x.csv", "1,nan,3\n", "must be finite"),
        ("x.txt", "1 2 3", "read from .npy, .json or .csv"),
        ("x.json", '{"state": [1, 2, 3]}', "no observation that could be read"),
    ],
)
def test_a_file_that_holds_no_observation_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_observation(tmp_path / name, log())
