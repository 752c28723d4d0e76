"""Large embedding tables in pieces, one beside the other on the parameter servers.

    with partitions.of_size(mib=64):
        estimator.train(...)         # its graph has tables of more than 64 MiB in pieces

A checkpoint has each table whole, as TensorFlow's savers write the pieces of one variable, so that
everything else, without pieces, reads the same. A table that starts from pretrained vectors stays
whole. The limit is of the table; slots of its optimizer are cut as it is.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import Any, Optional

import tensorflow as tf

_LIMIT: contextvars.ContextVar[Optional[float]] = contextvars.ContextVar("limit", default=None)

_FLOAT = 4  # Bytes of a number of a table.


@contextlib.contextmanager
def of_size(mib: Optional[float]) -> Iterator[None]:
    """Graphs that are built in the block have pieces of so many MiB at most; None cuts nothing."""
    token = _LIMIT.set(mib)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def pieces(rows: int, width: int, mib: float) -> int:
    """How many pieces a table has, of a row at least: 1,000,000 rows of 32 in 64 MiB are 2."""
    return min(rows, math.ceil(rows * width * _FLOAT / (mib * 2**20)))


def partitioner(rows: int, width: int) -> Optional[Any]:
    """What cuts a table of the graph that is being built; None for one that stays whole."""
    limit = _LIMIT.get()
    count = pieces(rows, width, limit) if limit is not None else 1
    return tf.compat.v1.fixed_size_partitioner(count) if count > 1 else None
