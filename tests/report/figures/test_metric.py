"""Figures 3 and 4, in the paper's units and in ours, and the states of appendix C."""

import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metric_cases import SMALL, random_log
from ploff import datasets
from ploff.cli import main
from ploff.metric.train import MetricTraining, learn_metric
from ploff.report.figures.metric import NOISE_SIZES, UNITS, draw_losses, draw_noise, noise_distances, relative_losses


@pytest.fixture(scope="module")
def learned():
    return learn_metric(random_log(seed=0), SMALL, MetricTraining(steps=20, scan_length=10, check_every=20), quiet=True)


def test_losses_are_drawn_as_they_are_and_as_shares_of_the_mean_distance(learned):
    first = learned.history[0]
    expected = 100 * first["phi_loss"] ** 0.5 / first["mean_distance"]
    assert relative_losses(learned, "phi_loss")[0] == pytest.approx(expected)
    titles = [axis.get_title() for axis in draw_losses(learned).axes]
    assert titles[0] == "loss of Φ, as in the paper"
    assert titles[3] == "root of the loss of Φ"


def test_noise_is_in_the_datas_own_units_as_in_the_paper_and_in_the_logs(learned):
    data = random_log(seed=0)
    found = {units: noise_distances(learned, data, units, rows=50) for units in UNITS}
    keys = jax.random.split(jax.random.key(0), 4)
    rows = jax.random.randint(keys[0], (50,), 0, len(data))
    states, actions = np.asarray(data.observations)[rows], jnp.asarray(data.actions)[rows]
    noise = np.asarray(jax.random.normal(keys[2], states.shape))
    deviation = np.asarray(data.with_normalized_observations().observation_normalizer.scale)

    def embed(observations):
        return learned.metric.embed_pairs(learned.observation_normalizer.normalize(jnp.asarray(observations)), actions)

    for units, scale in (("paper", 1.0), ("log", deviation)):
        apart = learned.metric.pair_distance(embed(states), embed(states + 0.3 * scale * noise))
        np.testing.assert_allclose(found[units]["state"][NOISE_SIZES.index(0.3)], apart, rtol=1e-3, atol=1e-5)
    labels = [axis.get_xlabel() for axis in draw_noise(learned, data).axes]
    assert labels[1] == "size, in its own units (as in the paper)"
    assert labels[3] == "size, in standard deviations of the log"


def test_the_command_alone_leaves_figures_and_for_a_table_the_nearest_rows_by_name(tmp_path, capsys):
    rng = np.random.default_rng(0)
    with open(tmp_path / "plant.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["episode", "pressure", "heat", "valve", "reward", "terminal"])
        for row in range(60):
            writer.writerow(
                [row // 20, *rng.normal(size=2), *rng.uniform(-1, 1, 1), rng.uniform(), int(row % 20 == 19)]
            )
    columns = ["--columns", "observations=pressure,heat", "actions=valve", "rewards=reward", "terminals=terminal"]
    small = ["--set", "hidden_sizes=8", "--set", "embedding_size=4", "--set", "batch_size=8", "--steps", "500"]
    bounds = ["--action-low", "-1", "--action-high", "1"]
    main(
        [
            "metric",
            str(tmp_path / "plant.csv"),
            "--out",
            str(tmp_path / "out"),
            *columns,
            *bounds,
            *small,
            "--relevance",
            "off",
        ]
    )
    (folder,) = (tmp_path / "out" / "metrics").iterdir()
    assert {"losses.png", "noise.png", "states.csv"} <= {path.name for path in folder.iterdir()}
    header, *rows = csv.reader((folder / "states.csv").read_text().splitlines())
    assert header == ["group", "", "episode", "step", "distance", "pressure", "heat", "valve", "reward"]
    named = {"observations": ["pressure", "heat"], "actions": ["valve"]}
    data = datasets.load(tmp_path / "plant.csv", columns=named, action_low=-1.0, action_high=1.0)
    for _, kind, episode, step, distance, pressure, *_ in rows:
        assert (kind == "state") == (float(distance) == 0)
        assert float(pressure) == pytest.approx(float(data.observations[20 * int(episode) + int(step)][0]), rel=1e-4)
