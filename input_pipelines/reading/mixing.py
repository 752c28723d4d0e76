"""Mixes several sets of files into one stream. Each set has a fixed share of the rows.

Rows come in rounds. With the shares 3 and 1, three rows of the first part come first, then one row
of the second, and so on. The sizes of the parts do not matter. So every batch has exactly the given
shares, except where a batch ends inside a round. The number of rows that were read from each part
is known for any number of rows, so a restart continues exactly.

Each part is shuffled separately, and starts its next epoch when it ends. One epoch of the mix has
as many rows as all parts together. In that time, a part whose share is larger than its size is read
more than once, and a part whose share is smaller is not read completely.

    Mix.of(["data/ads/*.tfrecord=3", "data/search/*.tfrecord=1"], days=())
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import tensorflow as tf

from feature_specs.files import file_systems
from input_pipelines.errors import DataError
from input_pipelines.reading import files as file_patterns
from input_pipelines.record_files import tfrecords


@dataclasses.dataclass(frozen=True)
class Part:
    """One set of files and its share.

    Attributes:
      pattern: the user's pattern, for messages.
      files: the files.
      share: the number of its rows in a round, 1 or more.
    """

    pattern: str
    files: tuple[str, ...]
    share: int


@dataclasses.dataclass(frozen=True)
class Mix:
    """Sets of files. No file belongs to two of them."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, entries: Sequence[str], *, days: Sequence[str] = (), flag: str = "mix") -> Mix:
        """Makes a mix of `pattern=share` entries. Divides the shares by their common divisor.

        Raises:
          ValueError: an entry is not `pattern=share`.
          DataError: a pattern matches nothing, or two match one file.
        """
        pairs = [share_of(entry) for entry in entries]
        common = functools.reduce(math.gcd, (share for _, share in pairs))
        parts: list[Part] = []
        owner: dict[str, int] = {}
        for part, (pattern, share) in enumerate(pairs):
            files = file_patterns.expand([pattern], flag=flag, days=days)
            for path, name in file_systems.canonical_of(files).items():
                if owner.setdefault(name, part) != part:
                    raise DataError(
                        f"{flag}: {pairs[owner[name]][0]!r} and {pattern!r} both match {path}. "
                        "A file can be in only one part of a mix"
                    )
            parts.append(Part(pattern, tuple(files), share // common))
        return cls(tuple(parts))

    @property
    def files(self) -> list[str]:
        return file_systems.ordered(path for part in self.parts for path in part.files)

    @property
    def round(self) -> int:
        """Rows of a round."""
        return sum(part.share for part in self.parts)

    def only(self, files: Sequence[str], flag: str = "mix") -> Mix:
        """The same mix, reduced to the given files.

        Raises:
          DataError: a part has none of the given files.
        """
        kept = set(files)
        parts = []
        for part in self.parts:
            own = tuple(path for path in part.files if path in kept)
            if not own:
                raise DataError(
                    f"{flag}: all {len(part.files)} files of {part.pattern!r} are skipped because "
                    "they have bad records. Repair them, or remove this part from the mix"
                )
            parts.append(dataclasses.replace(part, files=own))
        return Mix(tuple(parts))

    def skips(self, rows: int) -> tuple[list[int], int]:
        """The position in each part after the first `rows` rows of the stream.

        Returns:
          How many rows of each part the complete rounds have taken, and how many rows of the next
          round are taken as well.
        """
        rounds, rest = divmod(rows, self.round)
        return [rounds * part.share for part in self.parts], rest


def share_of(entry: str) -> tuple[str, int]:
    """Splits `a/*.tfrecord=3` into `("a/*.tfrecord", 3)`; raises ValueError for other forms."""
    pattern, _, share = entry.rpartition("=")
    if not pattern or not share.isdecimal() or not 1 <= int(share) <= 10_000:
        raise ValueError(
            f"got {entry!r}, expected pattern=share with a whole number from 1 to 10000, as in "
            "data/ads/*.tfrecord=3"
        )
    return pattern, int(share)


def in_rounds(streams: Sequence[tf.data.Dataset], mix: Mix) -> tf.data.Dataset:
    """Joins one endless dataset of string tensors for each part into string tensors of rounds."""
    rounds = max(1, tfrecords.BLOCK // mix.round)
    pieces = [
        stream.rebatch(rounds * part.share, drop_remainder=True)
        for stream, part in zip(streams, mix.parts)
    ]

    def joined(*parts: tf.Tensor) -> tf.Tensor:
        columns = [tf.reshape(rows, [rounds, part.share]) for rows, part in zip(parts, mix.parts)]
        return tf.reshape(tf.concat(columns, axis=1), [-1])

    return tf.data.Dataset.zip(tuple(pieces)).map(joined)
