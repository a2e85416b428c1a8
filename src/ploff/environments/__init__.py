"""Where policies act: D4RL's seven environments on current packages, and every Gymnasium environment.

env = ploff.environments.make("hopper")                         # as D4RL's data has it
env = ploff.environments.make("hopper", physics="gymnasium")    # as Gymnasium has it now
env = ploff.environments.make("CartPole-v1")
"""

from ploff.environments.registry import Physics, action_space_of, make, names, register
from ploff.tasks import References, has_reference, normalized_score, reference_scores, register_reference

__all__ = [
    "Physics",
    "References",
    "action_space_of",
    "has_reference",
    "make",
    "names",
    "normalized_score",
    "reference_scores",
    "register",
    "register_reference",
]
