import pytest

from environment_cases import Countdown
from ploff.environments import env_cache
from ploff.environments.env_cache import cached_envs


class Closing(Countdown):
    """Notes that it was closed."""

    closed = False

    def close(self):
        self.closed = True


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """No environment waits, and those of any name are made here."""
    environments = []

    def make(name, physics, **options):
        environments.append(Closing())
        return environments[-1]

    monkeypatch.setattr(env_cache, "make", make)
    monkeypatch.setattr(env_cache, "_IDLE", {})
    return environments


def test_d4rls_environments_wait_for_the_next_block_of_the_same_physics(made):
    with cached_envs(2, "hopper", "d4rl", {}) as first:
        assert len(first) == 2
    with cached_envs(3, "hopper", "d4rl", {}) as second:
        assert set(first) < set(second)
    assert len(made) == 3
    with cached_envs(1, "hopper", "gymnasium", {}) as other:
        assert other[0] not in second
    assert not any(env.closed for env in made)


def test_two_blocks_at_once_do_not_share_environments():
    with cached_envs(1, "hopper", "d4rl", {}) as outer, cached_envs(1, "hopper", "d4rl", {}) as inner:
        assert outer[0] is not inner[0]


@pytest.mark.parametrize(
    ("environment", "options"), [("CartPole-v1", {}), ("hopper", {"max_episode_steps": 5}), (Closing, {})]
)
def test_other_environments_are_closed_at_the_end_of_their_block(environment, options):
    with cached_envs(2, environment, "d4rl", options) as envs:
        assert not any(env.closed for env in envs)
    assert all(env.closed for env in envs)
    with cached_envs(2, environment, "d4rl", options) as others:
        assert not set(envs) & set(others)


def test_after_a_failure_environments_are_not_used_again():
    with pytest.raises(RuntimeError, match="fell over"), cached_envs(2, "hopper", "d4rl", {}) as envs:
        raise RuntimeError("it fell over")
    assert all(env.closed for env in envs)
    with cached_envs(2, "hopper", "d4rl", {}) as others:
        assert not set(envs) & set(others)
