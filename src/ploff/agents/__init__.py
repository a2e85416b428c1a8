"""The methods, one file each, behind the same functions; see `ploff.agents.base`."""

from ploff.agents.base import METHODS, DistanceKind, Method, get_method

__all__ = ["METHODS", "DistanceKind", "Method", "get_method"]
