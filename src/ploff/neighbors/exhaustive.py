"""Exhaustive search with faiss, and how faiss is made to use the machine.

Shapes: N points, Q queries, k neighbours, E embedding.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any

import faiss
import numpy as np
from jaxtyping import Float, Int

from ploff.errors import PloffError


class Exhaustive:
    """Compares a query with every point. No error, no preparation."""

    def __init__(self, points: Float[np.ndarray, "N E"]):
        self.points = np.ascontiguousarray(points, np.float32)

    def query(self, queries: Float[np.ndarray, "Q E"], k: int) -> Int[np.ndarray, "Q k"]:
        """The k nearest points of each query, nearest first."""
        queries = checked(queries, self.points)
        with direct_differences():
            return faiss.knn(queries, self.points, k)[1].astype(np.int32)


def checked(queries: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Queries as faiss takes them."""
    if queries.shape[1:] != points.shape[1:]:
        raise PloffError(
            f"query width {queries.shape[-1]} != index width {points.shape[-1]}: was it built from another metric?"
        )
    use_all_cores()
    return np.ascontiguousarray(queries, np.float32)


def use_all_cores() -> None:
    """Lets faiss use the cores that this process may use, whatever another library has set."""
    faiss.omp_set_num_threads(cores())


def cores() -> int:
    """Cores that this process may use."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return available or 1


def on_all_cores(function: Callable[..., np.ndarray], *arguments: Iterable[Any]) -> list[np.ndarray]:
    """`function` of many small problems, each on one core: threads inside a small problem wait more than they work."""
    alone = functools.partial(faiss.omp_set_num_threads, 1)
    with matrix_products(), futures.ThreadPoolExecutor(cores(), initializer=alone) as pool:
        return list(pool.map(function, *arguments))


@contextlib.contextmanager
def matrix_products() -> Iterator[None]:
    """Distances as ‖x‖² + ‖y‖² − 2xy: four times quicker here, and exact enough to choose among centres."""
    with _products_from(0):
        yield


@contextlib.contextmanager
def direct_differences() -> Iterator[None]:
    """Distances as ‖x − y‖², without the cancellation that reorders neighbours far nearer than the data is wide."""
    with _products_from(2**31 - 1):
        yield


@contextlib.contextmanager
def _products_from(queries: int) -> Iterator[None]:
    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = queries
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
