"""The one pass over the files: blocks of records into a `RecordSummary`.

Files are read one after the other in the order given, in blocks, while TensorFlow reads ahead; of
each only a block is in memory. Nothing is skipped: what cannot be read stops the pass with the file
and the number of the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow as tf

from input_pipelines import tfrecords
from input_pipelines.analyze import sketches
from input_pipelines.analyze.summary import RecordSummary
from input_pipelines.analyze.values import EXACT_LIMIT
from input_pipelines.analyze.wire import NotAnExample, parse_block
from input_pipelines.errors import DataError

# Blocks parsed together: arrays long enough that the cost of each NumPy call vanishes.
_BLOCKS = 8


def scan(files: Sequence[str], *, exact_limit: int = EXACT_LIMIT) -> RecordSummary:
    """Reads all records of some TFRecord files once.

    Args:
      files: paths, GZIP when their name ends in .gz.
      exact_limit: different values of a feature that are counted one by one; with more, counts
        are estimated.

    Raises:
      DataError: there is no record, a file or record is corrupt, or a feature has two types.
      MissingPackageError: the package for sketches is not installed.
    """
    sketches.library()  # Now, and not after an hour.
    summary = RecordSummary(exact_limit)
    for path in files:
        before = 0
        for records in _chunks(path):
            try:
                found = parse_block(records)
            except NotAnExample as error:
                raise DataError(
                    f"{path}: record {before + error.row}: is no serialized tf.train.Example"
                ) from error
            summary.add(found, len(records), path, before)
            before += len(records)
    if not summary.rows:
        raise DataError(
            f"there is no record in {files[0]}{' and the other files' if len(files) > 1 else ''}; "
            "nothing can be learned of them"
        )
    return summary


def _chunks(path: str) -> Iterator[list[bytes]]:
    """Records of a file, several blocks at a time."""
    records: list[bytes] = []
    try:
        for i, block in enumerate(tfrecords.blocks([path]).prefetch(_BLOCKS), start=1):
            records += block.numpy().tolist()
            if i % _BLOCKS == 0:
                yield records
                records = []
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError):
        reason = tfrecords.corruption(path)
        if reason is None:
            raise
        raise DataError(reason) from None
    if records:
        yield records
