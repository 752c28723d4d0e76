"""A seeded shuffle of all rows, one row at a time: its shard, and its place in the shard.

Row number i of the table (over all files in their order) has the random number mix(i + mix(seed)),
in 64-bit integers, where mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), which
maps different integers to different ones. The high half of it chooses the shard; within the shard
rows are in the order of mix of it. So every row may come to every place, memory holds one shard,
and the order is the same in every version of NumPy.
"""

from __future__ import annotations

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15


def mix(numbers: np.ndarray) -> np.ndarray:
    """uint64 [n], scattered; no two alike become alike."""
    z = numbers + np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_numbers(first: int, count: int, seed: int) -> np.ndarray:
    """uint64 [count]: those of rows `first` and on."""
    base = mix(np.array([seed % 2**64], np.uint64))[0]
    return mix(np.arange(first, first + count, dtype=np.uint64) + base)


def shards_of(numbers: np.ndarray, shards: int) -> np.ndarray:
    """int64 [n]: which of so many shards rows go to, given their random numbers."""
    return (((numbers >> np.uint64(32)) * np.uint64(shards)) >> np.uint64(32)).astype(np.int64)


def places(numbers: np.ndarray) -> np.ndarray:
    """uint64 [n]: what the rows of a shard are sorted by."""
    return mix(numbers)
