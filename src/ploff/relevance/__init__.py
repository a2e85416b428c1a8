"""What matters in a log's observations: learned before the metric, from the log alone."""

from ploff.relevance.predictors import RelevanceConfig
from ploff.relevance.relevance import Relevance, find_relevance, learn_relevance

__all__ = ["Relevance", "RelevanceConfig", "find_relevance", "learn_relevance"]
