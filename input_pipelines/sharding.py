"""Decides which records a worker reads; the one place that does.

Over all workers each record is read exactly once. Files are sorted first, because workers on
different machines list them in different orders. Shards are cut before anything is shuffled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


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

    def deal(self, files: Sequence[str]) -> tuple[list[str], Shard]:
        """The files that this shard opens, and the shard of records that it reads of each.

        Whole files are dealt out when there are enough of them; otherwise every shard opens all
        files and their records are dealt out, one by one.
        """
        ordered = sorted(files)
        if len(ordered) >= self.count:
            return ordered[self.index :: self.count], Shard()
        return ordered, self
