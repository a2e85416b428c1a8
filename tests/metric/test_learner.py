import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metric_cases import SMALL, ending_log, started
from ploff.metric import learner
from ploff.metric.pseudometric import MetricConfig

jitted_update = eqx.filter_jit(learner.update)


@pytest.mark.parametrize(
    "change",
    [
        {"discount": 0.5},
        {"next_actions": "uniform"},
        {"action_weight": 3.0},
        {"state_weight": 1.0},
        {"ends": False},
        {"bounded": False},
        {"hidden_sizes": (16,)},
        {"embedding_size": 4},
        {"state_encoder_sizes": (8,)},
        {"action_encoder_sizes": (8,)},
        {"estimator": "literal"},
        {"batch_size": 12},
        {"num_next_actions": 1},
        {"lr": 1e-2},
        {"tau": 0.5},
        {"normalize_observations": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_changes_the_metric(change):
    def after_three_steps(config):
        state, data = started(config, ending_log())
        for key in jax.random.split(jax.random.key(1), 3):
            state, _ = jitted_update(state, data, jnp.arange(len(data)), key, config)
        batch = data.batch(jnp.arange(4))
        seen = []
        final = learner.finished_metric(state, data.action_space, 0.8, config)
        for metric in (state.metric.params, final):
            pairs = metric.embed_pairs(batch.observations, batch.actions)
            states = metric.embed_states(batch.observations)
            seen += [
                metric.pair_distance(pairs[:2], pairs[2:]),
                metric.state_distance(states[:2], states[2:]),
            ]
        return np.concatenate(seen)

    assert np.abs(after_three_steps(SMALL) - after_three_steps(dataclasses.replace(SMALL, **change))).max() > 1e-5


def test_no_setting_is_left_out_above():
    parameters = test_every_setting_changes_the_metric.pytestmark[0].args[1]  # pyright: ignore
    tested = {name for change in parameters for name in change}
    assert tested == {field.name for field in dataclasses.fields(MetricConfig)}
