"""An index that finds the items with the largest products, with FAISS, and how good it is.

    index = build(items.vectors)
    measured = tuned(index, items.vectors, queries, recall=0.95)      # sets how far it searches

The measure is the inner product, without a change of the vectors: the query of a user is the user's
vector, and the distances that the index returns are scores. A bias is one of the dimensions.

Up to `EXACT` items, the index compares all of them (`IndexFlatIP`). More items get an HNSW graph
(Malkov & Yashunin, Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical
Navigable Small World Graphs, TPAMI 2018) over whole vectors. It has 32 neighbors for each item and
considers 200 candidates when it adds one. A search considers `ef` candidates; `tuned` takes the
first of 16, 32, 64, ... that finds enough of the best items. `benchmarks/item_index.py` compares
other choices. An inverted file (IVF) is as fast for vectors in clusters, and has to compare most
items for others. One more dimension makes products Euclidean distances, but then the graph needs
many more candidates for the same recall.

The graph may have items that no search reaches, because few items have their largest products with
them. So the recall is always measured, and an index below the limit is refused.

This module does not import TensorFlow.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_kit.errors import ConfigError

# The number of best items that the recall is about.
K = 10

# Up to this many items, comparing all of them takes less than a millisecond.
EXACT = 10_000

NEIGHBORS = 32
CANDIDATES = 200
_CHOICES_OF_EF = (16, 32, 64, 128, 256, 512, 1024, 2048)

# Queries whose time is measured.
_TIMED = 200


class Measured(NamedTuple):
    """How an index compares with a comparison of all items, on the same queries.

    Attributes:
      queries: how many queries there were.
      recall: the share of the `K` best items that the index finds. An item is one of the best if no
        more than `K` - 1 items have a larger score. So it does not matter which of equal items is
        found.
      ef: how many candidates a search considers; 0 for an index that compares all items.
      milliseconds, brute_force_milliseconds: the median time of a query, one query at a time on one
        core, of the index and of `IndexFlatIP`.
    """

    queries: int
    recall: float
    ef: int
    milliseconds: float
    brute_force_milliseconds: float

    @property
    def speed_up(self) -> float:
        return self.brute_force_milliseconds / self.milliseconds


def library() -> Any:
    """The package faiss.

    Raises:
      ConfigError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise ConfigError(
            f"--transform=item_index needs the package faiss-cpu ({error}). Install it with "
            "`pip install 'estimator-kit[index]'`."
        ) from error
    return faiss


def build(vectors: np.ndarray, *, exact: int = EXACT) -> Any:
    """A `faiss.Index` over float32 [items, n]; the ids of items are the numbers of their rows.

    Args:
      vectors: the vectors of the items.
      exact: up to how many items the index compares all of them.
    """
    faiss = library()
    n = vectors.shape[1]
    if len(vectors) <= exact:
        index = faiss.IndexFlatIP(n)
    else:
        index = faiss.IndexHNSWFlat(n, NEIGHBORS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = CANDIDATES
    index.add(np.ascontiguousarray(vectors, np.float32))
    return index


def tuned(index: Any, vectors: np.ndarray, queries: np.ndarray, *, recall: float) -> Measured:
    """Lets the index search as far as it must for this recall, and measures it.

    If no choice reaches the recall, the index has the last choice.

    Args:
      index: the result of `build`.
      vectors: float32 [items, n], which it was built from.
      queries: float32 [queries, n].
      recall: the smallest recall, between 0 and 1.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    flat = build(vectors, exact=len(vectors))
    best, _ = flat.search(queries, min(K, len(vectors)))
    ef, reached = 0, 0.0
    for ef in _CHOICES_OF_EF if hasattr(index, "hnsw") else (0,):
        if ef:
            index.hnsw.efSearch = ef
        _, ids = index.search(queries, best.shape[1])
        reached = share_found(ids, vectors, queries, best)
        if reached >= recall:
            break
    times = one_by_one([(index, queries[:_TIMED]), (flat, queries[:_TIMED])])
    return Measured(len(queries), reached, ef, *times)


def share_found(
    ids: np.ndarray, vectors: np.ndarray, queries: np.ndarray, best: np.ndarray
) -> float:
    """The recall of the answers of an index.

    Args:
      ids: int64 [queries, k], the answers; -1 for none.
      vectors: float32 [items, n].
      queries: float32 [queries, n].
      best: float32 [queries, k], the largest scores, the largest one first.
    """
    answer_vectors = vectors[np.maximum(ids, 0)]
    scores = np.einsum("qkn,qn->qk", answer_vectors, queries)
    # Two ways to compute a score differ in its last digits.
    rounding = 1e-6 * np.einsum("qkn,qn->qk", np.abs(answer_vectors), np.abs(queries))
    return float(((ids >= 0) & (scores >= best[:, -1:] - rounding)).mean())


def one_by_one(cases: Sequence[tuple[Any, np.ndarray]]) -> list[float]:
    """The median milliseconds of a query for each (index, queries), on one core."""
    faiss = library()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        return [_milliseconds(index, queries) for index, queries in cases]
    finally:
        faiss.omp_set_num_threads(threads)


def _milliseconds(index: Any, queries: np.ndarray) -> float:
    seconds = []
    for i in range(len(queries)):
        start = time.perf_counter()
        index.search(queries[i : i + 1], min(K, index.ntotal))
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds))
