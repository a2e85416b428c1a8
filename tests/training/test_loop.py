import shutil

import jax.numpy as jnp
import pytest

from ploff.experiments.jobs import Job
from ploff.experiments.schedule import run_jobs
from ploff.experiments.store import Store
from ploff.training.checkpoint import load_header
from ploff.training.loop import DivergenceError, TrainingRun
from ploff.utils.errors import PloffError
from ploff.utils.progress import Progress


def test_a_value_that_is_not_finite_names_itself_and_keeps_the_checkpoint(tmp_path):
    def update(state, key):
        return state + 1, {"loss": jnp.where(state < 25, 1.0, jnp.nan)}

    def run_to(steps):
        run = TrainingRun("toy", jnp.asarray(0), checkpoint=checkpoint)
        for _ in run.updates(update, (), steps=steps, seed=0, scan_length=10):
            pass
        run.save(finished=True)

    checkpoint = tmp_path / "checkpoint.eqx"
    run_to(20)
    with pytest.raises(DivergenceError, match=r"toy diverged before step 30: loss not finite.*step 20 stays"):
        run_to(50)
    assert load_header(checkpoint)["step"] == 20


@pytest.mark.parametrize(("scan_length", "every"), [(10, 50), (7, 50), (25, 50)])
def test_evaluations_are_at_the_same_steps_wherever_an_earlier_run_ended(tmp_path, scan_length, every):
    def update(state, key):
        return state + 1, {"loss": state * 1.0}

    for steps in (125, 300):
        run = TrainingRun("toy", jnp.asarray(0), checkpoint=tmp_path / "c.eqx")
        for _ in run.updates(update, (), steps=steps, seed=0, scan_length=scan_length, evaluate_every=every):
            if run.evaluation_is_due(every, last=steps):
                run.evaluations.append({"step": run.step, "state": float(run.state)})
        run.save(finished=True)
    assert [row["step"] for row in run.evaluations] == [50, 100, 125, 150, 200, 250, 300]
    assert all(row["state"] == row["step"] for row in run.evaluations)


class Interrupted:
    """An executor whose one job is a run that Ctrl-C meets at step 10: in an evaluation, or once it was told."""

    slots = 1

    def __init__(self, checkpoint, in_evaluation):
        self.checkpoint, self.in_evaluation = checkpoint, in_evaluation

    def submit(self, job):
        self.job, self.work = job, self.train()

    def wait(self):
        return [(self.job, next(self.work))]

    def close(self):
        self.work.close()

    def train(self):
        def update(state, key):
            return state + 1, {"loss": state * 1.0}

        run = TrainingRun("toy", jnp.asarray(0), checkpoint=self.checkpoint)
        with run.saved_when_stopped():
            for _ in run.updates(update, (), steps=100, seed=0, scan_length=10, evaluate_every=10):
                if run.evaluation_is_due(10) and self.in_evaluation:
                    raise KeyboardInterrupt
                yield Progress(run.step, 100)
                raise KeyboardInterrupt


@pytest.mark.parametrize("in_evaluation", [True, False])
def test_an_interrupted_run_says_how_to_go_on(in_evaluation, tmp_path):
    job, checkpoint = Job(kind="toy", arguments={}, label="toy"), tmp_path / "checkpoint.eqx"
    place = "" if in_evaluation else ": toy at step 10"
    with pytest.raises(KeyboardInterrupt, match=f"interrupted; run the same command again to go on{place}"):
        run_jobs([job], Interrupted(checkpoint, in_evaluation), Store(tmp_path), quiet=True)
    assert load_header(checkpoint)["step"] == 10


def test_a_folder_that_is_deleted_meanwhile_is_said(tmp_path):
    run = TrainingRun("toy", jnp.asarray(0), checkpoint=tmp_path / "out" / "checkpoint.eqx")
    run.save()
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(PloffError, match="out is gone: it was moved or deleted while toy was trained in it"):
        run.save()
