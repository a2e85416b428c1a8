import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from discrete_cases import bandit_log, learn, quick_config, table
from ploff.actions import ActionSpace
from ploff.agents import get_method
from ploff.agents.base import DISCRETE_METHODS, method_for
from ploff.agents.discrete.bcq import BCQPolicy
from ploff.agents.discrete.networks import GreedyPolicy, SoftmaxPolicy, cross_entropy, deviation
from ploff.agents.discrete.ploff import PloffPolicy
from ploff.agents.policy import Policy, read_policy, save_policy
from ploff.theory.gridworld import Maze, full_coverage_log
from ploff.transitions import Normalizer
from ploff.utils.errors import PloffError

STATES = np.eye(4, dtype=np.float32)


def test_scores_probabilities_and_masks_by_hand():
    scores = table(np.log([[0.5, 0.3, 0.2]]))
    softmax, greedy = SoftmaxPolicy(scores), GreedyPolicy(scores)
    state, mask = jnp.ones((1, 1)), jnp.asarray([[False, True, True]])
    np.testing.assert_allclose(softmax.probabilities(state), [[0.5, 0.3, 0.2]], rtol=1e-6)
    np.testing.assert_allclose(softmax.probabilities(state, mask), [[0, 0.6, 0.4]], rtol=1e-6)
    np.testing.assert_array_equal(greedy.probabilities(state, mask), [[0, 1, 0]])
    assert float(cross_entropy(scores(state), jnp.asarray([[0.0, 0.0, 1.0]]), mask)[0]) == pytest.approx(-np.log(0.4))


def test_the_deviation_is_among_legal_actions():
    scores = jnp.asarray([[0.0, 2.0, 100.0], [1.0, 1.0, 1.0]])
    legal = jnp.asarray([[True, True, False], [True, True, True]])
    assert float(deviation(scores, legal)) == pytest.approx(0.5)
    assert float(deviation(scores, None)) == pytest.approx(np.std([0, 2, 100]) / 2, rel=1e-6)


@pytest.mark.parametrize(
    "name", [name for name in DISCRETE_METHODS if name != "discrete-ploff"]
)  # as discrete-ploff-l2
def test_every_method_learns_what_pays_and_its_file_acts_alike(name, tmp_path):
    config = quick_config(name)
    state, data = learn(name, bandit_log(), config, 400)
    policy = Policy.of(get_method(name), state, data)
    usual = [1, 2, 3, 0]
    assert policy(STATES).tolist() == (usual if name == "discrete-bc" else [0, 1, 2, 3])
    save_policy(tmp_path / "policy.eqx", policy, name, config)
    read = read_policy(tmp_path / "policy.eqx")
    np.testing.assert_array_equal(read.scores(STATES), policy.scores(STATES))
    np.testing.assert_allclose(read.probabilities(STATES).sum(axis=1), 1, rtol=1e-6)
    forbidden = np.eye(4, dtype=bool)[np.asarray(policy(STATES))]
    assert not (np.asarray(read(STATES, ~forbidden)) == np.asarray(policy(STATES))).any()


@pytest.mark.parametrize("name", ["discrete-ploff-l2"])
def test_what_is_forbidden_is_not_learned_to_be_taken(name):
    log = bandit_log(illegal=True)
    state, data = learn(name, log, quick_config(name), 400)
    policy = Policy.of(get_method(name), state, data)
    assert policy(STATES, ~np.eye(4, dtype=bool)).tolist() == [1, 2, 3, 0]


def test_a_million_decisions_are_legal():
    random = np.random.default_rng(0)
    critic, other = (table(random.normal(size=(4, 4))) for _ in range(2))
    one = jnp.ones(())
    actors = (
        GreedyPolicy(critic),
        SoftmaxPolicy(critic),
        BCQPolicy(critic, other, 0.3 * one),
        PloffPolicy(critic, other, one, one),
    )
    for actor in actors:
        legal = random.uniform(size=(250_000, 4)) < 0.4
        legal[~legal.any(axis=1), 2] = True
        policy = Policy(actor, Normalizer.identity(), ActionSpace.discrete(4), (4,))
        actions = np.asarray(policy(random.normal(size=(250_000, 4)), legal))
        assert legal[np.arange(len(legal)), actions].all()


def test_masks_that_fit_nothing_are_refused():
    policy = Policy(GreedyPolicy(table(np.eye(4))), Normalizer.identity(), ActionSpace.discrete(4), (4,))
    with pytest.raises(PloffError, match="no action is legal in row 1 of the mask"):
        policy(STATES[:2], [[1, 0, 0, 0], [0, 0, 0, 0]])
    with pytest.raises(PloffError, match=r"one flag per action, shape \(rows, 4\); got \(2, 3\)"):
        policy(STATES[:2], np.ones((2, 3)))


def test_answers_are_those_of_every_row_alone_whatever_the_batch():
    random = np.random.default_rng(0)
    policy = Policy(
        SoftmaxPolicy(table(random.normal(size=(4, 4)))), Normalizer.identity(), ActionSpace.discrete(4), (4,)
    )
    rows = random.normal(size=(37, 4)).astype(np.float32)
    legal = np.arange(4)[None] != np.arange(37)[:, None] % 4
    for answer in (policy, policy.scores, policy.probabilities):
        whole = np.asarray(answer(rows, legal))
        for i in range(37):
            np.testing.assert_allclose(answer(rows[i : i + 1], legal[i : i + 1])[0], whole[i], rtol=1e-5)
        np.testing.assert_allclose(eqx.filter_jit(answer)(rows, legal), whole, rtol=1e-5)
        assert answer(rows[:0], legal[:0]).shape == (0, *whole.shape[1:])
    assert np.issubdtype(policy(rows).dtype, np.integer)
    with pytest.raises(PloffError, match="the mask has 3 rows, the observations have 37"):
        policy(rows, legal[:3])


def test_a_name_stands_for_the_method_that_fits_the_actions():
    discrete = bandit_log(20)
    assert method_for("td3-off", discrete).name == "discrete-dqn"
    assert method_for("ploff-l2", discrete).name == "discrete-ploff-l2"
    assert method_for("discrete-cql", discrete).name == "discrete-cql"
    with pytest.raises(PloffError, match="has 4 discrete actions, prdc learns no such; discrete-ploff"):
        method_for("prdc", discrete)


@pytest.mark.parametrize("name", ["discrete-dqn", "discrete-ploff-l2"])
def test_on_the_gridworld_with_every_move_logged_the_optimum_is_reached(name):
    maze, discount = Maze("#####\n#...#\n#.#.#\n#..G#\n#####"), 0.9
    mdp = maze.mdp()
    values = np.zeros(mdp.rewards.shape)
    for _ in range(300):
        values = mdp.rewards + discount * values.max(axis=1)[np.asarray(mdp.successors)]
    config = quick_config(name, batch_size=64, discount=discount, hidden_sizes=(64,), tau=0.02)
    state, data = learn(name, full_coverage_log(maze), config, 1500)
    actions = np.asarray(Policy.of(get_method(name), state, data)(np.eye(mdp.num_states, dtype=np.float32)))
    chosen = values[np.arange(mdp.num_states), actions]
    np.testing.assert_allclose(chosen, values.max(axis=1), rtol=1e-9)
