"""TD3 in an environment: it learns, logs all that it saw, and leaves policies that can be used."""

import functools

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ploff import PloffError, cli, datasets, environments, load_policy
from ploff.agents.online import OnlineTraining, ReplayBuffer, learn_online, write
from ploff.agents.td3 import TD3Config
from ploff.environments import registry
from ploff.environments.collection import collect
from ploff.environments.evaluation import evaluate
from ploff.transitions import UNKNOWN, Batch

SMALL = TD3Config(hidden_sizes=(16, 16), batch_size=32, actor_lr=3e-3, critic_lr=3e-3, discount=0.5)
BRIEF = OnlineTraining(steps=900, random_steps=300, block=50, snapshot_every=300, episodes=4)


class Aim(gym.Env):
    """A point on a line that an action moves; the nearer it comes to 0, the better. Ten steps."""

    observation_space = gym.spaces.Box(-3.0, 3.0, (1,), np.float32)
    action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.uniform(-1.5, 1.5, 1).astype(np.float32), 0
        return self.place, {}

    def step(self, action):
        reward = -float(np.square(self.place + action)[0])
        self.place, self.time = self.np_random.uniform(-1.5, 1.5, 1).astype(np.float32), self.time + 1
        return self.place, reward, False, self.time == 10, {}


@pytest.fixture(autouse=True)
def aim(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    environments.register("aim", lambda **_: Aim())


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    registry._REGISTERED["aim"] = lambda **_: Aim()
    folder = tmp_path_factory.mktemp("policies")
    return learn_online("aim", BRIEF, SMALL, snapshots=folder, quiet=True), folder


def test_it_learns(learned):
    outcome, _ = learned
    assert [row["step"] for row in outcome.curve] == [300, 600, 900]
    untrained, trained = outcome.curve[0]["mean_return"], outcome.curve[-1]["mean_return"]
    assert untrained < -3  # about ten times the variance of the place
    assert trained > untrained / 4


def test_all_that_it_saw_is_logged(learned):
    seen = learned[0].seen
    assert len(seen) == 900
    assert (seen.successors != UNKNOWN).all()
    assert not seen.terminals.any()
    assert np.flatnonzero(seen.timeouts).tolist() == [*range(9, 900, 10)]
    places, actions = np.asarray(seen.observations)[:900, 0], np.asarray(seen.actions)[:, 0]
    np.testing.assert_allclose(seen.rewards, -np.square(places + actions), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(seen.next_observations()[:9, 0], places[1:10])
    assert actions[:300].std() == pytest.approx(4 / 12**0.5, rel=0.15)  # uniform at first
    assert np.abs(places + actions)[-100:].mean() < 0.5  # then near what is best


def test_a_snapshot_is_a_policy_that_collects(learned):
    outcome, folder = learned
    policy = load_policy(folder / "step-900.eqx")
    again = evaluate(policy, "aim", episodes=4, seed=900)
    assert again.mean_return == pytest.approx(outcome.curve[-1]["mean_return"], rel=1e-5)
    log = collect("aim", policy=policy, transitions=50)
    assert log.rewards.mean() > -0.5
    noisy = collect("aim", policy=policy, transitions=50, noise=0.5)
    assert np.abs(noisy.actions - log.actions).std() > 0.3
    with pytest.raises(PloffError, match="observations of shape"):
        collect("Pendulum-v1", policy=policy, transitions=5)


def test_the_same_seed_learns_the_same(learned):
    again = learn_online("aim", BRIEF, SMALL, quiet=True)
    for first, second in zip(jax.tree.leaves(learned[0].state), jax.tree.leaves(again.state), strict=True):
        np.testing.assert_array_equal(first, second)


def test_the_buffer_is_written_in_place_and_only_what_was_written_is_drawn():
    space = environments.action_space_of(Aim())
    replay = ReplayBuffer.empty(100, (1,), space)
    place = replay.seen.observations.unsafe_buffer_pointer()
    for number in range(1, 4):
        block = Batch(*(jnp.full((10, *old.shape[1:]), number, old.dtype) for old in replay.seen))
        replay = write(replay, block)
    assert replay.seen.observations.unsafe_buffer_pointer() == place
    assert int(replay.size) == 30
    np.testing.assert_array_equal(replay.seen.rewards[:30], np.repeat([1.0, 2.0, 3.0], 10))
    rows, batch = replay.sample(jax.random.key(0), 500)
    assert set(np.unique(rows)) == set(range(30))
    assert set(np.unique(batch.rewards)) == {1.0, 2.0, 3.0}


def test_an_interruption_keeps_what_was_seen(monkeypatch):
    calls = []

    def stop(self):
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("ploff.agents.online._Learner.snapshot", stop)
    outcome = learn_online("aim", BRIEF, SMALL, quiet=True)
    assert outcome.interrupted
    assert len(outcome.seen) == 300


def test_the_command_writes_log_and_policies(tmp_path, monkeypatch):
    brief = functools.partial(OnlineTraining, random_steps=50)
    monkeypatch.setattr("ploff.agents.online.OnlineTraining", brief)
    arguments = ["data", "collect", "aim", "--train", "100", "--snapshot-every", "50"]
    cli.main([*arguments, "--out", str(tmp_path / "replay.npz")])
    assert len(datasets.load(tmp_path / "replay.npz")) == 100
    names = {path.name for path in (tmp_path / "replay-policies").iterdir()}
    assert names == {"curve.csv", "step-50.eqx", "step-100.eqx"}
    policy = str(tmp_path / "replay-policies" / "step-100.eqx")
    arguments = ["data", "collect", "aim", "--policy", policy, "--transitions", "30"]
    cli.main([*arguments, "--out", str(tmp_path / "m.npz")])
    assert len(datasets.load(tmp_path / "m.npz")) == 30


def test_nonsense_is_refused():
    with pytest.raises(PloffError, match="steps must be a multiple of 50, got 120"):
        OnlineTraining(steps=120)
    with pytest.raises(PloffError, match="first 10,000 steps, which are random: 10,000 are too few"):
        OnlineTraining(steps=10_000)
    with pytest.raises(PloffError, match="bounded box"):
        learn_online("CartPole-v1", BRIEF, quiet=True)
    environments.register("picture", lambda **_: gym.wrappers.ReshapeObservation(Aim(), (1, 1, 1)))
    with pytest.raises(PloffError, match="learns from vectors"):
        learn_online("picture", BRIEF, quiet=True)
