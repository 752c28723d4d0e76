"""Warns of records that lie sorted by a label, when shuffling cannot mix them.

Training reads up to 16 files at a time, in turn, and shuffles 64 blocks of 1024 rows. Where what is
open at one time has other labels than the rest (files of one class each, or a file that is sorted
inside), a model learns one class, then forgets it for the next. Looks at the first records of each
file, and at the start of every block at the beginning of the largest; a sample, so silence proves
nothing. Never changes the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf
from google.protobuf.message import DecodeError

from feature_specs.heads.objectives import Binary, MultiClass
from feature_specs.spec import FeatureSpec
from input_pipelines.autograph import as_written
from input_pipelines.integrity import stored_records
from input_pipelines.reading import shuffling
from input_pipelines.record_files import tfrecords

# How much the share of a class may differ between what is open at one time and all that is looked
# at. Of some hundred records 0.25 is many times what chance makes.
_APART = 0.25

# Records that a share is made of, at least.
_ENOUGH = 256

# Blocks of the largest file that are read: two fillings of the shuffle buffer.
_BLOCKS = 2 * shuffling.BLOCK_BUFFER


def warnings(
    spec: FeatureSpec,
    first: Mapping[str, Sequence[bytes]],
    *,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> Iterator[str]:
    """A sentence for each label that is sorted.

    Args:
      spec: the feature spec.
      first: the first records of each file, as `tfrecords.first_records` gives them.
      damaged: files of which only the good records are read.
    """
    labels = [
        spec.label_of(name)
        for name, objective in spec.objectives.items()
        if isinstance(objective, (Binary, MultiClass))
    ]
    paths = sorted(first)
    counted = {label: [Counter(_values(first[path], label)) for path in paths] for label in labels}
    inside: dict[str, list[Counter[Any]]] = {label: [] for label in labels}
    if paths:
        largest = max(paths, key=lambda path: tf.io.gfile.stat(path).length)
        for block in _block_starts(largest, damaged):
            for label in labels:
                inside[label].append(Counter(_values(block, label)))
    for label in labels:
        found = _apart(counted[label], tfrecords.OPEN_FILES)
        if found is not None:
            at, value, share, overall = found
            yield (
                f"label {label!r} is sorted over the files: it is {value} in {share:.0%} of the "
                f"records looked at in the {tfrecords.OPEN_FILES} files from {paths[at]} on, and "
                f"in {overall:.0%} of all. Shuffling mixes what lies in {tfrecords.OPEN_FILES} "
                "files that follow each other by name: write files that each have all classes, or "
                "name them so that they alternate"
            )
            continue
        each = max(1, shuffling.BLOCK_BUFFER // min(len(paths), tfrecords.OPEN_FILES))
        found = _apart(inside[label], each)
        if found is not None:
            at, value, share, overall = found
            yield (
                f"label {label!r} is sorted inside {largest}: it is {value} in {share:.0%} of the "
                f"records looked at from record {at * tfrecords.BLOCK} on, and in {overall:.0%} "
                f"of its first {len(inside[label]) * tfrecords.BLOCK:,}. Shuffling mixes about "
                f"{each * tfrecords.BLOCK:,} records of a file that follow each other: shuffle "
                "the records before they are written"
            )


def _apart(
    counts: Sequence[Counter[Any]], together: int
) -> Optional[tuple[int, Any, float, float]]:
    """Where a class has another share than overall, among so many neighbours.

    Returns:
      (index of the first neighbour, the class, its share there, its share overall) of the largest
      difference; None where none is large.
    """
    if len(counts) <= together:
        return None
    total: Counter[Any] = sum(counts, Counter())
    worst: Optional[tuple[int, Any, float, float]] = None
    for at in range(len(counts) - together + 1):
        here: Counter[Any] = sum(counts[at : at + together], Counter())
        if sum(here.values()) < _ENOUGH:
            continue
        for value in total:
            share = here[value] / sum(here.values())
            overall = total[value] / sum(total.values())
            if abs(share - overall) > max(_APART, abs(worst[2] - worst[3]) if worst else 0):
                worst = (at, value, share, overall)
    return worst


def _block_starts(path: str, damaged: tfrecords.Damaged) -> Iterator[list[bytes]]:
    """The first 64 records of each block at the start of a file."""
    blocks = tfrecords.blocks([path], damaged=damaged).take(_BLOCKS)
    starts = blocks.map(as_written(lambda block: block[:64]))
    try:
        for block in starts.as_numpy_iterator():
            yield list(block)
    except tfrecords.READ_ERRORS:
        return  # The run itself will say so.


def _values(records: Sequence[bytes], label: str) -> Iterator[Any]:
    """The values of a label; nothing of records that have none or cannot be read."""
    for record in records:
        try:
            parsed = tf.train.Example.FromString(record)
        except DecodeError:  # The run itself will say so.
            continue
        stored = stored_records.values(parsed.features.feature.get(label))
        if len(stored) == 1:
            yield stored[0].decode(errors="replace") if isinstance(stored[0], bytes) else stored[0]
