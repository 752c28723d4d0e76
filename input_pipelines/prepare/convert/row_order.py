"""A seeded shuffle of all rows that computes the shard and place of each row separately.

Row number i of the table (over all files in order) has the random number r = mix(i + mix(seed)), in
64-bit integers. mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), which maps
different integers to different integers. The high half of r chooses the shard. Within the shard,
rows are sorted by mix(r). So every row can come to any place, only one shard must be in memory, and
the order is the same in every version of NumPy.
"""

from __future__ import annotations

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15


def mix(numbers: np.ndarray) -> np.ndarray:
    """uint64 [n]: scattered numbers. Different inputs give different outputs."""
    z = numbers + np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_numbers(first: int, count: int, seed: int) -> np.ndarray:
    """uint64 [count]: the random numbers of `count` rows, from row `first` on."""
    base = mix(np.array([seed % 2**64], np.uint64))[0]
    return mix(np.arange(first, first + count, dtype=np.uint64) + base)


def shards_of(numbers: np.ndarray, shards: int) -> np.ndarray:
    """int64 [n]: the shards of rows, from 0 to `shards` - 1, given their random numbers."""
    return (((numbers >> np.uint64(32)) * np.uint64(shards)) >> np.uint64(32)).astype(np.int64)


def places(numbers: np.ndarray) -> np.ndarray:
    """uint64 [n]: the sort keys of rows within their shard."""
    return mix(numbers)
