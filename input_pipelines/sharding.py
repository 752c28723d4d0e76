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

    def files(self, files: Sequence[str]) -> list[str]:
        """The files that this shard opens: its own when there are enough of them, else all."""
        ordered = sorted(files)
        return ordered[self.index :: self.count] if self.by_file(files) else ordered

    def by_file(self, files: Sequence[str]) -> bool:
        """Whether whole files are dealt out; otherwise every file's records are, one by one."""
        return len(files) >= self.count
