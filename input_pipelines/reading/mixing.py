"""Several sets of files in one stream, each with its share of the rows.

Rows come in rounds: of the shares 3 and 1, three rows of the first part, one of the second, and so
on, whatever the sizes of the parts. So the shares are exact in every batch (but for a round that it
cuts), and how many rows of each part were read is known for any number of rows: a restart goes on
exactly. Each part is shuffled by itself and begins its next epoch when it ends. An epoch of the mix
is as many rows as all parts together have; a part whose share is larger than its size is then read
more than once, and one whose share is smaller not whole.

    Mix.of(["data/ads/*.tfrecord=3", "data/search/*.tfrecord=1"], days=())
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import tensorflow as tf

from input_pipelines.errors import DataError
from input_pipelines.reading import files as file_patterns
from input_pipelines.record_files import tfrecords


@dataclasses.dataclass(frozen=True)
class Part:
    """One set of files and its share.

    Attributes:
      pattern: as it was given, for messages.
      files: the files.
      share: rows of it in a round, 1 or more.
    """

    pattern: str
    files: tuple[str, ...]
    share: int


@dataclasses.dataclass(frozen=True)
class Mix:
    """Sets of files that have no file in common."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, entries: Sequence[str], *, days: Sequence[str] = (), flag: str = "mix") -> Mix:
        """The mix of some `pattern=share`, the shares divided by what they have in common.

        Raises:
          ValueError: an entry is wrong.
          DataError: a pattern matches nothing, or two match one file.
        """
        pairs = [share_of(entry) for entry in entries]
        common = functools.reduce(math.gcd, (share for _, share in pairs))
        parts: list[Part] = []
        owner: dict[str, int] = {}
        for part, (pattern, share) in enumerate(pairs):
            files = file_patterns.expand([pattern], flag=flag, days=days)
            for path in files:
                if owner.setdefault(path, part) != part:
                    raise DataError(
                        f"{flag}: {pairs[owner[path]][0]!r} and {pattern!r} both match {path}; a "
                        "file is in one part of a mix"
                    )
            parts.append(Part(pattern, tuple(files), share // common))
        return cls(tuple(parts))

    @property
    def files(self) -> list[str]:
        return sorted(path for part in self.parts for path in part.files)

    @property
    def round(self) -> int:
        """Rows of a round."""
        return sum(part.share for part in self.parts)

    def only(self, files: Sequence[str], flag: str = "mix") -> Mix:
        """The same mix of those of its files that are among some.

        Raises:
          DataError: a part has none of them.
        """
        kept = set(files)
        parts = []
        for part in self.parts:
            own = tuple(path for path in part.files if path in kept)
            if not own:
                raise DataError(
                    f"{flag}: all {len(part.files)} files of {part.pattern!r} are left out, as "
                    "they have bad records; repair them, or take this part out of the mix"
                )
            parts.append(dataclasses.replace(part, files=own))
        return Mix(tuple(parts))

    def skips(self, rows: int) -> tuple[list[int], int]:
        """Where each part is after so many rows of the stream.

        Returns: the rows of each part that whole rounds have taken, and how many rows of the round
        that follows are gone, too.
        """
        rounds, rest = divmod(rows, self.round)
        return [rounds * part.share for part in self.parts], rest


def share_of(entry: str) -> tuple[str, int]:
    """`("a/*.tfrecord", 3)` of `a/*.tfrecord=3`; raises ValueError."""
    pattern, _, share = entry.rpartition("=")
    if not pattern or not share.isdecimal() or not 1 <= int(share) <= 10_000:
        raise ValueError(
            f"got {entry!r}, expected pattern=share with a whole number from 1 to 10000, as in "
            "data/ads/*.tfrecord=3"
        )
    return pattern, int(share)


def in_rounds(streams: Sequence[tf.data.Dataset], mix: Mix) -> tf.data.Dataset:
    """String tensors of whole rounds, from one endless dataset of string tensors a part."""
    rounds = max(1, tfrecords.BLOCK // mix.round)
    pieces = [
        stream.rebatch(rounds * part.share, drop_remainder=True)
        for stream, part in zip(streams, mix.parts)
    ]

    def joined(*parts: tf.Tensor) -> tf.Tensor:
        columns = [tf.reshape(rows, [rounds, part.share]) for rows, part in zip(parts, mix.parts)]
        return tf.reshape(tf.concat(columns, axis=1), [-1])

    return tf.data.Dataset.zip(tuple(pieces)).map(joined)
