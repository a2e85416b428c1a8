"""Behavioral cloning of a log, to hold policies against."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ploff.agents import get_method
from ploff.agents.dataset import OfflineDataset
from ploff.agents.policy import Policy
from ploff.judging.judged_log import JudgedLog
from ploff.training.loop import scan_updates

SCAN_LENGTH = 500


def clone(log: JudgedLog, steps: int, seed: int = 0) -> Policy:
    """Trains behavioral cloning on the episodes that are not judged on; on all, where all are."""
    method, data = get_method("bc"), log.data
    config = method.config()
    others = np.setdiff1d(np.arange(int(log.owners.max()) + 1), log.episodes) if log.kept else []
    training = data.select_episodes(others) if len(others) else data
    training = dataclasses.replace(training, infos={}).with_normalized_observations()
    dataset = OfflineDataset.of(training)
    state, key = method.init(jax.random.key(seed), dataset, config), jax.random.key(seed + 1)
    for first in range(0, steps, SCAN_LENGTH):
        count = min(SCAN_LENGTH, steps - first)
        state, _ = scan_updates(method.update_fn(config), state, (dataset,), key, jnp.asarray(first), count)
    return Policy.of(method, state, training)
