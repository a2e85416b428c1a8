"""Collection: logs of a policy's episodes, with every final state kept and ends told from cuts.

    log = ploff.environments.collection.collect("hopper", policy="random", transitions=10_000, seed=0)

An episode that the environment ended is terminal; one that its horizon cut is a timeout, and so is the last
one, if the count cut it. Actions are logged as the environment saw them, clipped to its bounds; states and
rewards in single precision.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from ploff import environments
from ploff.actions import ActionSpace
from ploff.environments.env_cache import cached_envs
from ploff.environments.evaluation import episode_seeds
from ploff.environments.rollouts import ROWS, Episode, Policy, compiled, run_episodes
from ploff.transitions import Origin, Transitions
from ploff.utils.errors import PloffError
from ploff.utils.progress import track

USUAL_HORIZON = 1000  # where the environment names none


def collect(
    environment: str,
    *,
    policy: Literal["random"] | Policy = "random",
    transitions: int,
    noise: float = 0.0,
    seed: int = 0,
    physics: environments.Physics = "d4rl",
    options: dict[str, Any] | None = None,
    quiet: bool = True,
) -> Transitions:
    """Logs as many transitions as asked for, episode after episode; the same arguments give the same log.

    Args:
      environment: a name or a Gymnasium id that `ploff.environments.make` knows.
      policy: "random" for actions drawn uniformly, or a callable as in `ploff.environments.evaluation.evaluate`. One
        that draws noise of its own should hold its own seeded generator.
      transitions: how many.
      noise: deviation of Gaussian noise on the policy's actions, in units of half an action's range.
      seed: decides the episodes' seeds, the random policy's actions and the noise.
      physics: see `ploff.environments.make`.
      options: for `ploff.environments.make`.
      quiet: shows no progress.
    """
    if transitions < 1:
        raise PloffError(f"a log needs at least one transition, got {transitions}")
    with cached_envs(1, environment, physics, options or {}) as (env,):
        space = environments.action_space_of(env)
        horizon = (env.spec.max_episode_steps if env.spec else None) or USUAL_HORIZON
    if isinstance(policy, str):
        if noise:
            raise PloffError("noise is for a policy's actions: those of `random` are noise already")
        policy = _uniform_policy(policy, space, seed)
    elif noise:
        policy = _noisy(policy, noise, space, seed)
    parallel = min(ROWS, max(1, transitions // horizon))  # more would throw most of a short log away
    kept, count = [], 0
    with (
        cached_envs(parallel, environment, physics, options or {}) as envs,
        track(f"collecting on {environment}", transitions, quiet=quiet) as tracker,
        contextlib.closing(run_episodes(policy, envs, episode_seeds(seed, transitions), keep=True)) as episodes,
    ):
        for episode in _in_order(episodes):
            kept.append(episode)
            count += len(episode.rewards)
            tracker.update(min(count, transitions))
            if count >= transitions:
                break
    return _log(kept, transitions, space, origin_of(environment, physics, options))


def _in_order(episodes: Iterator[Episode]) -> Iterator[Episode]:
    """Episodes by number: which one ends first must not decide which are kept."""
    waiting: dict[int, Episode] = {}
    number = 0
    for episode in episodes:
        waiting[episode.number] = episode
        while number in waiting:
            yield waiting.pop(number)
            number += 1


def _log(episodes: list[Episode], count: int, space: ActionSpace, origin: Origin) -> Transitions:
    ends = np.cumsum([len(episode.rewards) for episode in episodes]) - 1
    terminals, timeouts = np.zeros(ends[-1] + 1, bool), np.zeros(ends[-1] + 1, bool)
    terminals[ends] = [episode.terminal for episode in episodes]
    timeouts[ends] = ~terminals[ends]
    timeouts[count - 1] |= not terminals[count - 1]
    actions = np.concatenate([episode.actions for episode in episodes])[:count]
    return Transitions.from_rows(
        observations=np.concatenate([episode.observations[:-1] for episode in episodes])[:count],
        actions=actions.astype(np.int32 if space.kind == "discrete" else np.float32),
        rewards=np.concatenate([episode.rewards for episode in episodes])[:count].astype(np.float32),
        terminals=terminals[:count],
        timeouts=timeouts[:count],
        next_observations=np.concatenate([episode.observations[1:] for episode in episodes])[:count],
        action_space=space,
        origin=origin,
    )


def origin_of(environment: str, physics: environments.Physics, options: dict[str, Any] | None = None) -> Origin:
    """Where a log comes from that was collected there."""
    known = environments.has_reference(environment)
    return Origin(
        name=f"{environment}-collected",
        environment=environment,
        physics=physics,
        reference_scores=environments.reference_scores(environment) if known else None,
        options=json.dumps(options or {}),
    )


def _uniform_policy(name: str, space: ActionSpace, seed: int) -> Policy:
    if name != "random":
        raise PloffError(f"a policy is 'random' or a callable, got {name!r}")
    draw = np.random.default_rng([seed, 1])  # apart from the stream that seeds the episodes
    if space.kind == "discrete":
        return lambda observations: draw.integers(space.n, size=len(observations))
    low, high = np.asarray(space.low), np.asarray(space.high)
    if not np.isfinite([low, high]).all():
        raise PloffError("uniform actions need finite bounds; pass a policy for this environment")
    return lambda observations: draw.uniform(low, high, (len(observations), space.width))


def _noisy(policy: Policy, noise: float, space: ActionSpace, seed: int) -> Policy:
    if space.kind != "box" or noise < 0:
        raise PloffError(f"noise is not negative, and for actions in a box; got {noise}")
    draw, act = np.random.default_rng([seed, 2]), compiled(policy)

    def noisy(observations: Any) -> np.ndarray:
        actions = np.asarray(act(observations))
        return actions + noise * space.half_range * draw.standard_normal(actions.shape)

    return noisy
