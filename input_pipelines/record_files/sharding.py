"""Decides which records a worker reads; the one place that does.

Over all workers each record is read exactly once. Files are sorted first, because workers on
different machines list them in different orders. Shards are cut before anything is shuffled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Optional

# Whole files are dealt out while no shard has more bytes than this many times the mean of all.
_UNEVEN = 1.25


@dataclasses.dataclass(frozen=True)
class Shard:
    """One of `count` equal parts of the input; `index` counts from 0, the chief's.

    The default is the whole.
    """

    count: int = 1
    index: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"shard {self.index} of {self.count}: expected an index below count")

    def deal(
        self,
        files: Sequence[str],
        sizes: Optional[Mapping[str, int]] = None,
        *,
        whole: bool = False,
    ) -> tuple[list[str], Shard]:
        """The files that this shard opens, and the shard of records that it reads of each.

        Whole files are dealt out, each to the shard that has the fewest bytes so far, the largest
        first. Where there are too few for that to come out even, every shard opens all files and
        their records are dealt out, one by one.

        Args:
          files: of all shards.
          sizes: their bytes; looked up where they are not given.
          whole: whether records may not be dealt out one by one, however uneven files are.
        """
        ordered = sorted(files)
        if self.count == 1:
            return ordered, Shard()
        if len(ordered) < self.count:
            return ordered, self
        sizes = sizes_of(ordered) if sizes is None else sizes
        loads, owner = [0] * self.count, {}
        for path in sorted(ordered, key=lambda path: (-sizes[path], path)):
            owner[path] = min(range(self.count), key=lambda i: (loads[i], i))
            # An empty file counts, too: there are enough for each shard to have one.
            loads[owner[path]] += max(sizes[path], 1)
        if not whole and max(loads) > _UNEVEN * sum(loads) / self.count:
            return ordered, self
        return [path for path in ordered if owner[path] == self.index], Shard()


def sizes_of(files: Sequence[str]) -> dict[str, int]:
    """The bytes of each file."""
    import tensorflow as tf  # Teams are looked at without it.

    return {path: tf.io.gfile.stat(path).length for path in files}
