"""Warns about records that are sorted by a label if shuffling cannot mix them.

Training reads up to 16 files in turn, and shuffles 64 blocks of 1024 rows. If the open files have
other labels than the rest (each file has one class, or a file is sorted inside), a model learns one
class and then forgets it for the next. This module checks the first records of each file, and the
start of each block in the first part of the largest file, without the records that the spec's
filter drops. This is only a sample, so no warning does not prove that records are mixed. It never
changes the order.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf
from google.protobuf.message import DecodeError

from feature_specs.spec import FeatureSpec
from input_pipelines.integrity import stored_records
from input_pipelines.reading import selection, shuffling
from input_pipelines.record_files import record_lists, tfrecords

# How much the share of a class in the open files may differ from its share in the whole sample.
# With a few hundred records, 0.25 is many times the random variation.
_APART = 0.25

# The fewest records from which a share is computed.
_ENOUGH = 256

# How many blocks of the largest file are read: twice the shuffle buffer.
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
      first: the first records of each file, as `record_lists.first_records` returns them.
      damaged: files of which only the good records are read.
    """
    labels = [
        spec.label_of(name)
        for name, objective in spec.objectives.items()
        if objective.classes is not None and not objective.lists_classes
    ]
    paths = sorted(first)
    some = [_counted(spec, first[path]) for path in paths]
    counted = {label: [Counter(_values(part, label)) for part in some] for label in labels}
    inside: dict[str, list[Counter[Any]]] = {label: [] for label in labels}
    if paths:
        largest = max(paths, key=lambda path: tf.io.gfile.stat(path).length)
        for block in (_counted(spec, start) for start in _block_starts(largest, damaged)):
            for label in labels:
                inside[label].append(Counter(_values(block, label)))
    for label in labels:
        outlier = _apart(counted[label], tfrecords.OPEN_FILES)
        if outlier is not None:
            at, value, share, overall = outlier
            yield (
                f"label {label!r} is sorted over the files: it is {value} in {share:.0%} of the "
                f"sampled records of the {tfrecords.OPEN_FILES} files from {paths[at]} on, but in "
                f"{overall:.0%} of all sampled records. Shuffling mixes only "
                f"{tfrecords.OPEN_FILES} files that follow each other by name. Write files that "
                "each have all classes, or name them so that the classes alternate"
            )
            continue
        each = max(1, shuffling.BLOCK_BUFFER // min(len(paths), tfrecords.OPEN_FILES))
        outlier = _apart(inside[label], each)
        if outlier is not None:
            at, value, share, overall = outlier
            yield (
                f"label {label!r} is sorted inside {largest}: it is {value} in {share:.0%} of the "
                f"sampled records from record {at * tfrecords.BLOCK} on, but in {overall:.0%} of "
                f"the first {len(inside[label]) * tfrecords.BLOCK:,}. Shuffling mixes only about "
                f"{each * tfrecords.BLOCK:,} records of a file that follow each other. Shuffle the "
                "records before you write them"
            )


def _apart(
    counts: Sequence[Counter[Any]], together: int
) -> Optional[tuple[int, Any, float, float]]:
    """Where a class has a different share than overall, in `together` counts in a row.

    Returns:
      (index of the first count, the class, its share there, its share overall) for the largest
      difference; None if no difference is large.
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
    blocks = record_lists.of_files([path], tfrecords.BLOCK, damaged=damaged)
    try:
        for block in itertools.islice(blocks, _BLOCKS):
            yield block[:64]
    except tfrecords.READ_ERRORS:
        return  # The run itself reports the damaged file.


def _counted(spec: FeatureSpec, records: Sequence[bytes]) -> list[bytes]:
    """The records that the filter keeps, without those for which it cannot be decided."""
    verdicts = selection.verdicts(records, spec.conditions)
    return [record for record, verdict in zip(records, verdicts) if verdict is True]


def _values(records: Sequence[bytes], label: str) -> Iterator[Any]:
    """The values of a label. Ignores records that lack the label or cannot be read."""
    for record in records:
        try:
            parsed = tf.train.Example.FromString(record)
        except DecodeError:  # The run itself reports the bad record.
            continue
        stored = stored_records.values(parsed.features.feature.get(label))
        if len(stored) == 1:
            yield stored[0].decode(errors="replace") if isinstance(stored[0], bytes) else stored[0]
