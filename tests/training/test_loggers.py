"""Loggers beside the CSV files."""

import sys

import pytest

from ploff import PloffError
from ploff.training.loggers import check_logger, open_logger


def test_weights_and_biases_gets_rows_by_step_and_an_absent_package_names_its_extra(tmp_path, monkeypatch):
    class Run:
        def __init__(self):
            self.rows, self.finished = [], False

        def log(self, values, step):
            self.rows.append((step, values))

        def finish(self):
            self.finished = True

    class Module:
        run = Run()

        @classmethod
        def init(cls, **options):
            cls.options = options
            return cls.run

    monkeypatch.setitem(sys.modules, "wandb", Module)
    with open_logger("wandb", tmp_path, "bc seed 0", {"batch_size": 16}) as logger:
        logger.write(10, {"score": 1.0})
    assert Module.run.rows == [(10, {"score": 1.0})]
    assert Module.run.finished
    assert Module.options["config"] == {"batch_size": 16}
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(PloffError, match=r"ploff\[wandb\]"), open_logger("wandb", tmp_path, "", {}):
        pass


def test_an_unknown_logger_is_named():
    check_logger(None)
    with pytest.raises(PloffError, match="unknown logger 'tensorbord'; did you mean 'tensorboard'"):
        check_logger("tensorbord")
