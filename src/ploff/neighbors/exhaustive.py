"""Exhaustive search with faiss, and how faiss is made to use the machine.

Shapes: N points, Q queries, k neighbors, E embedding.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any, TypeVar

import faiss
import numpy as np
from jaxtyping import Float, Int

from ploff.utils.cores import available_cores
from ploff.utils.errors import PloffError

EVERY = 16  # one point in so many bounds how far a neighbor can be
BLOCK = 1_024  # points compared at a time
CROWD = 128  # points of a block within that bound, for each query, from which a product spares nothing
T = TypeVar("T")


class Exhaustive:
    """Compares a query with every point. No error, no preparation."""

    def __init__(self, points: Float[np.ndarray, "N E"]):
        self.points = np.ascontiguousarray(points, np.float32)

    def query(self, queries: Float[np.ndarray, "Q E"], k: int) -> Int[np.ndarray, "Q k"]:
        """The k nearest points of each query, nearest first."""
        queries = checked(queries, self.points)
        with direct_differences():
            return faiss.knn(queries, self.points, k)[1].astype(np.int32)


def exact_neighbors(
    points: Float[np.ndarray, "N E"], queries: Float[np.ndarray, "Q E"], k: int
) -> Int[np.ndarray, "Q k"]:
    """What `Exhaustive` answers, several times quicker where queries are few and points many.

    The k-th neighbor among some points bounds how far the k-th among all can be. Matrix products leave out the points
    that are farther by more than they can be wrong; differences judge the rest.
    """
    points, queries = np.ascontiguousarray(points, np.float32), np.ascontiguousarray(queries, np.float32)
    some = np.ascontiguousarray(points[::EVERY])
    if len(some) < k:
        return Exhaustive(points).query(queries, k)
    use_all_cores()
    with direct_differences():
        bound = faiss.knn(queries, some, k)[0][:, -1]
    middle = points.mean(axis=0)
    centered = queries - middle
    norms, rounding = np.square(centered).sum(axis=1), 2 * (points.shape[1] + 8) * np.finfo(np.float32).eps

    def judge(start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        block = points[start : start + BLOCK]
        others = block - middle
        slack = rounding * (norms + bound + np.square(others).sum(axis=1).max())
        near = np.flatnonzero(faiss.pairwise_distances(centered, others) <= (bound + slack)[:, None])
        if len(near) > CROWD * len(queries):
            return None
        query, place = np.divmod(near, len(block))
        return query, start + place, np.square(block[place] - queries[query]).sum(axis=1)

    judged = on_all_cores(judge, range(0, len(points), BLOCK))
    if any(found is None for found in judged):
        return Exhaustive(points).query(queries, k)
    query, place, squared = (np.concatenate(column) for column in zip(*judged, strict=True))  # pyright: ignore
    order = np.lexsort((squared, query))
    firsts = np.searchsorted(query[order], np.arange(len(queries)))
    return place[order[firsts[:, None] + np.arange(k)]].astype(np.int32)


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
    faiss.omp_set_num_threads(len(available_cores()))


def on_all_cores(function: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
    """`function` of many small problems, each on one core: threads inside a small problem wait more than they work."""
    alone = functools.partial(faiss.omp_set_num_threads, 1)
    with matrix_products(), futures.ThreadPoolExecutor(len(available_cores()), initializer=alone) as pool:
        return list(pool.map(function, *arguments))


@contextlib.contextmanager
def matrix_products() -> Iterator[None]:
    """Distances as ‖x‖² + ‖y‖² − 2xy: four times quicker here, and exact enough to choose among centers."""
    with _products_from(0):
        yield


@contextlib.contextmanager
def direct_differences() -> Iterator[None]:
    """Distances as ‖x − y‖², without the cancellation that reorders neighbors far nearer than the data is wide."""
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
