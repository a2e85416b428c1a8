"""Experiments: from a log to evaluated policies, one run or a suite of many, here or on a cluster.

run = ploff.train("sample", "td3-bc", out="run", steps=10_000, seeds=2)
policy = ploff.load_policy("run")
"""

from ploff.experiments.api import compare, train
from ploff.experiments.run_folder import Run, SeedResult, load_policy, load_run

__all__ = ["Run", "SeedResult", "compare", "load_policy", "load_run", "train"]
