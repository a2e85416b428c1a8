"""The pipeline: from a log to evaluated policies in a run folder.

run = ploff.train("sample", "td3-bc", out="run", steps=10_000, seeds=2)
policy = ploff.load_policy("run")
"""

from ploff.pipeline.policy import Policy, load_policy
from ploff.pipeline.runs import Run, SeedResult, load_run, summary
from ploff.pipeline.settings import AgentTraining, assignments
from ploff.pipeline.train import compare, train

__all__ = [
    "AgentTraining",
    "Policy",
    "Run",
    "SeedResult",
    "assignments",
    "compare",
    "load_policy",
    "load_run",
    "summary",
    "train",
]
