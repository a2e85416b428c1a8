"""Judging a policy by its log alone: what it is worth, how sure that is, and where it leaves its evidence.

One estimator a file, each from a `JudgedLog` and the policy's actions in its states to an `Estimate`.
"""

from ploff.judging.estimate import Estimate
from ploff.judging.gate import Gate, calibrate_gate
from ploff.judging.judge import Judge, JudgeConfig, Judgment, judge
from ploff.judging.judged_log import JudgedLog
from ploff.judging.log_distance import LogDistance

__all__ = [
    "Estimate",
    "Gate",
    "Judge",
    "JudgeConfig",
    "JudgedLog",
    "Judgment",
    "LogDistance",
    "calibrate_gate",
    "judge",
]
