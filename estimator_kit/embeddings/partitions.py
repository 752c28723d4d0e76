"""Splits large embedding tables into pieces, which are placed on the parameter servers.

    with partitions.of_size(mib=64):
        estimator.train(...)         # its graph splits tables of more than 64 MiB

A checkpoint contains each table as one tensor, because TensorFlow's savers join the pieces of a
variable. Code without pieces can therefore read it. A table with pretrained vectors is not split.
The limit applies to the table. The slots of its optimizer are split in the same way.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import Any, Optional

import tensorflow as tf

_LIMIT: contextvars.ContextVar[Optional[float]] = contextvars.ContextVar("limit", default=None)

_FLOAT = 4  # The number of bytes of a number in a table.


@contextlib.contextmanager
def of_size(mib: Optional[float]) -> Iterator[None]:
    """Limits pieces of tables in graphs built in the block to `mib` MiB. None splits nothing."""
    token = _LIMIT.set(mib)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def pieces(rows: int, width: int, mib: float) -> int:
    """The number of pieces of a table. 1,000,000 rows of 32 numbers in 64 MiB make 2 pieces."""
    return min(rows, math.ceil(rows * width * _FLOAT / (mib * 2**20)))


def partitioner(rows: int, width: int) -> Optional[Any]:
    """The partitioner of a table of the graph that is being built, or None for one piece."""
    limit = _LIMIT.get()
    count = pieces(rows, width, limit) if limit is not None else 1
    return tf.compat.v1.fixed_size_partitioner(count) if count > 1 else None
