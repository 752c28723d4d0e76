"""Decides which records each worker reads. No other module does.

All workers together read each record exactly once. Files are sorted first, because workers on
different machines may list them in different orders. Records are divided before they are shuffled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Optional

from feature_specs.files import file_systems

# Shards get whole files if no shard then has more bytes than this factor times the mean.
_UNEVEN = 1.25


@dataclasses.dataclass(frozen=True)
class Shard:
    """One of `count` equal parts of the input. `index` starts at 0, which is the chief's part.

    The default is the whole input.
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
        """The files that this shard opens, and the shard of each file's records that it reads.

        Shards get whole files if that divides the bytes evenly enough: the largest file comes
        first, and each file goes to the shard with the fewest bytes so far. Otherwise every shard
        opens all files and reads every `count`th record.

        Args:
          files: the files of all shards.
          sizes: the bytes of each file; looked up if None.
          whole: if True and there are enough files, shards get whole files even if their sizes are
            very uneven.
        """
        ordered = file_systems.ordered(files)
        if self.count == 1:
            return ordered, Shard()
        if len(ordered) < self.count:
            return ordered, self
        sizes = sizes_of(ordered) if sizes is None else sizes
        loads, owner = [0] * self.count, {}
        for path in sorted(ordered, key=lambda path: -sizes[path]):  # Else in their order.
            owner[path] = min(range(self.count), key=lambda i: (loads[i], i))
            # An empty file counts as one byte, so that each shard gets at least one file.
            loads[owner[path]] += max(sizes[path], 1)
        if not whole and max(loads) > _UNEVEN * sum(loads) / self.count:
            return ordered, self
        return [path for path in ordered if owner[path] == self.index], Shard()


def sizes_of(files: Sequence[str]) -> dict[str, int]:
    """The bytes of each file."""
    import tensorflow as tf  # Checking a team's configuration does not need TensorFlow.

    return {path: tf.io.gfile.stat(path).length for path in files}
