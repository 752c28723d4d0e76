"""Reads TFRecord files as lists of bytes, for code that looks at records in Python.

    for records in record_lists.of_files(paths, 512):     # 512 at a time, the last list is shorter
        ...

It reads with TensorFlow's own reader of records, but not with tf.data, whose graph costs a tenth
of a second of CPU for each reading, and more than this for each record, too
(benchmarks/README.md). It gives the records of `tfrecords.blocks` and refuses the same files; up to
a block of records before the damage may be missing. It has no threads: a training reads with
`tfrecords`, ahead of the model.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf
from tensorflow.python.lib.io import _pywrap_record_io

from input_pipelines.errors import DataError
from input_pipelines.record_files import file_bytes, file_lengths, record_scanner, tfrecords
from input_pipelines.record_files.framing import FRAME, LARGEST_RECORD
from input_pipelines.record_files.tfrecords import BLOCK, NO_DAMAGE, Damaged

# The number of records at the start of a file that a run checks before it begins.
_FIRST = 64

# How many bytes are read at a time to find them.
_START = 64 * 1024

# How many files are opened at the same time, because remote file systems are slow.
_OPENED = 16


def of_files(
    files: Sequence[str], size: int = BLOCK, *, damaged: Damaged = NO_DAMAGE
) -> Iterator[list[bytes]]:
    """The records of some files, one file after the other, in lists of `size` records.

    Args:
      files: paths. A list may have records of several files.
      size: the length of each list but the last.
      damaged: the files of which only the good records are read; see `tfrecords.Damaged`.

    Raises:
      DataError: a record is too large.
      tfrecords.READ_ERRORS: a file is damaged. The records of lists before were intact.
    """
    file_lengths.check([path for path in files if path not in damaged])
    records: list[bytes] = []
    for path in files:
        is_damaged = path in damaged
        read = tfrecords.good_records(path, damaged[path]) if is_damaged else _of_file(path)
        for block in read:
            records += block
            while len(records) >= size:
                yield records[:size]
                del records[:size]
    if records:
        yield records


def _of_file(path: str) -> Iterator[list[bytes]]:
    """The records of an intact file, in blocks. TensorFlow's reader ends early without an error."""
    total = 0
    reader = _pywrap_record_io.RecordIterator(path, tfrecords.compression_type(path))
    while block := list(itertools.islice(reader, BLOCK)):
        lengths = [len(record) for record in block]
        if max(lengths) > LARGEST_RECORD:
            raise _refused(f"a record has more than {LARGEST_RECORD} bytes: {path}")
        total += sum(lengths) + FRAME * len(block)
        yield block
    if not file_bytes.reached_end(path, total):
        raise _refused(f"the file ends before its last record does: {path}")


def _refused(problem: str) -> tf.errors.InvalidArgumentError:
    return tf.errors.InvalidArgumentError(None, None, problem)


def first_records(files: Sequence[str], *, damaged: Damaged = NO_DAMAGE) -> dict[str, list[bytes]]:
    """The first records, up to 64, of each file that has records.

    Raises:
      DataError: a file is corrupt in this part, is empty, or is not a TFRecord file.
    """
    file_lengths.check([path for path in files if path not in damaged])

    def of(path: str) -> list[bytes]:
        if path in damaged:
            return next(tfrecords.good_records(path, damaged[path]), [])[:_FIRST]
        return _first_of(path)

    with ThreadPoolExecutor(_OPENED) as threads:
        first = dict(zip(files, threads.map(of, files)))
    return {path: records for path, records in first.items() if records}


def _first_of(path: str) -> list[bytes]:
    """The first records of a file, read without what comes after them."""
    if not file_bytes.size(path):
        raise DataError(tfrecords.corruption(path))
    records = []
    with contextlib.closing(record_scanner.scan(path, chunk=_START)) as scanned:
        for record in itertools.islice(scanned, _FIRST):
            if isinstance(record, record_scanner.BadRecord):
                raise DataError(f"{path}: {record.sentence}")
            records.append(record.payload)
    return records
