"""Reads TFRecord files of `tf.train.Example`s or SequenceExamples, plain or GZIP.

Reading works on *blocks*, string tensors of many records, because tf.data's cost is per element
and not per byte. The reader counts the bytes of a file's records, and compares them with the size
of the file at its end (`file_bytes`): TensorFlow silently ignores some truncated files. Files
that are known to be damaged are read with `record_scanner`, without making a copy. `writing` writes
TFRecord files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Optional, Union

import numpy as np
import tensorflow as tf

from input_pipelines.eager import as_written
from input_pipelines.errors import DataError
from input_pipelines.record_files import file_bytes, file_lengths, framing, record_scanner
from input_pipelines.record_files.framing import FRAME, LARGEST_RECORD
from input_pipelines.record_files.sharding import Shard

BLOCK = framing.BLOCK

# The number of files that are read at the same time, so that a shuffle window mixes their rows.
OPEN_FILES = 16

# The bytes that are read at a time where a restart begins; the default of TFRecordDataset.
_BUFFER = 256 * 1024

# The errors that reading a damaged file raises.
READ_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.OutOfRangeError,
)

# The damaged files that are read anyway. For each of them: the numbers of the records to skip
# although their framing is correct. (Records with wrong framing are always skipped.)
Damaged = Mapping[str, frozenset[int]]
NO_DAMAGE: Damaged = {}


def compression_type(path: str) -> str:
    """`GZIP` for a name that ends in .gz or .gzip, otherwise the empty string."""
    return "GZIP" if file_bytes.is_gzip(path) else ""


@as_written
def blocks(
    files: Sequence[str],
    shard: Shard = Shard(),
    *,
    interleaved: bool = False,
    cut: Optional[Callable[[tf.data.Dataset], tf.data.Dataset]] = None,
    damaged: Damaged = NO_DAMAGE,
) -> tf.data.Dataset:
    """The records of some files as string tensors of up to `BLOCK` records.

    Args:
      files: paths; each is opened once, in this order.
      shard: which records of each file are read; `Shard.deal` returns it together with the files.
      interleaved: take blocks from several files in turn, for shuffling, instead of reading one
        file after the other. Either way, the order is the same at each reading.
      cut: divides the records of a file into other blocks.
      damaged: the files of which only the good records are read. Any other damaged file raises one
        of `READ_ERRORS` while it is read; `corruption` says where the file is damaged.
    """

    def part(index: tf.Tensor, of_file: tf.data.Dataset) -> tf.data.Dataset:
        if shard.count > 1:
            of_file = dealt(numbered(of_file), shard).map(lambda block, _: block)
        return cut(of_file) if cut is not None else of_file

    return each_file(files, part, interleaved=interleaved, damaged=damaged)


@as_written
def numbered_blocks(
    files: Sequence[str],
    shard: Shard = Shard(),
    *,
    interleaved: bool = False,
    damaged: Damaged = NO_DAMAGE,
    names: Optional[Mapping[str, str]] = None,
) -> tf.data.Dataset:
    """Like `blocks`, but each block comes with its origin: `(records, path, numbers)`.

    With `names`, the name of each path takes its place.

    `numbers`, int64 [records], are the places of the records in their file, from 0. They do not
    depend on the shard. In a damaged file only the records that are read are numbered. So numbers
    are the same at each reading, as long as the same records are skipped.
    """
    named = list(files) if names is None else [names[path] for path in files]
    shown = tf.constant(named, tf.string)

    def part(index: tf.Tensor, of_file: tf.data.Dataset) -> tf.data.Dataset:
        of_file = numbered(of_file)
        if shard.count > 1:
            of_file = dealt(of_file, shard)
        return of_file.map(lambda block, numbers: (block, shown[index], numbers))

    return each_file(files, part, interleaved=interleaved, damaged=damaged)


@as_written
def each_file(
    files: Sequence[str],
    part: Callable[[tf.Tensor, tf.data.Dataset], tf.data.Dataset],
    *,
    interleaved: bool,
    damaged: Damaged = NO_DAMAGE,
) -> tf.data.Dataset:
    """`part(index, blocks)` of one file after the other, or of several files in turn.

    Args:
      files, interleaved, damaged: see `blocks`.
      part: a function from the int64 number of a file and the dataset of all its blocks to what is
        read of it.
    """
    read = _reader(damaged)
    named = _named(files, damaged).enumerate()
    return of_files(
        named, len(files), lambda index, file: part(index, read(*file)), interleaved=interleaved
    )


def records_at(path: tf.Tensor, offset: tf.Tensor, count: Union[int, tf.Tensor]) -> tf.data.Dataset:
    """One element: up to `count` records from an offset of a file that is not compressed."""
    records = tf.data.experimental.from_variant(
        tf.raw_ops.TFRecordDatasetV2(
            filenames=path, compression_type="", buffer_size=_BUFFER, byte_offsets=offset
        ),
        tf.TensorSpec([], tf.string),
    )
    return records.take(count).batch(count)


def _reader(damaged: Damaged) -> Callable[..., tf.data.Dataset]:
    """A function that reads a file of `_named`: all records, or the good ones if it is damaged."""

    def read(
        path: tf.Tensor, compression: tf.Tensor, stored: tf.Tensor, is_damaged: tf.Tensor
    ) -> tf.data.Dataset:
        all_blocks = whole_file(path, compression, stored)
        if not damaged:
            return all_blocks
        good = tf.data.Dataset.from_generator(
            _good_blocks(damaged),
            args=(path,),
            output_signature=tf.TensorSpec([None], tf.string),
        )
        times = tf.cast(is_damaged, tf.int64)
        return all_blocks.repeat(1 - times).concatenate(good.repeat(times))

    return read


def whole_file(
    path: tf.Tensor, compression: tf.Tensor, stored: tf.Tensor, *, in_graph: bool = False
) -> tf.data.Dataset:
    """The blocks of one file, with a check that its end was reached.

    `stored` comes from `file_bytes.stored_lengths`. Only if this length does not match, the graph
    calls Python. It does not call Python for every file, because an iterator that is destroyed
    while its threads wait for Python may wait for these threads forever. With `in_graph` it never
    calls Python, for processes that do not run this code; a GZIP file with several members then
    counts as truncated.
    """
    problem = "the file ends before its last record does"
    if in_graph:
        problem += ", or it has several GZIP members (write it again as one member)"
    records = tf.data.TFRecordDataset(path, compression_type=compression).batch(BLOCK)
    end = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))

    def count(total: tf.Tensor, block: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = tf.size(block, tf.int64)
        lengths = tf.cast(tf.strings.length(block), tf.int64)
        length = tf.reduce_sum(lengths) + FRAME * rows
        measured = tf.where(tf.equal(compression, "GZIP"), total % 2**32, total)
        is_complete = tf.cond(
            (rows > 0) | ((total > 0) & tf.equal(measured, stored)),
            lambda: tf.constant(True),
            lambda: tf.constant(False) if in_graph else _asked(path, total),
        )
        small = tf.reduce_all(lengths <= LARGEST_RECORD)
        checks = [
            tf.debugging.Assert(is_complete, [f"{problem}:", path]),
            tf.debugging.Assert(small, [f"a record has more than {LARGEST_RECORD} bytes:", path]),
        ]
        with tf.control_dependencies(checks):
            return total + length, tf.identity(block)

    counted = records.concatenate(end).scan(tf.constant(0, tf.int64), count)
    return counted.filter(lambda block: tf.size(block) > 0)


def _asked(path: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(_reached_end, [path, total], tf.bool), [])


def _reached_end(path: bytes, total: int) -> np.bool_:
    return np.bool_(file_bytes.reached_end(path.decode(), int(total)))


def _good_blocks(damaged: Damaged) -> Callable[[bytes], Iterator[np.ndarray]]:
    def read(path: bytes) -> Iterator[np.ndarray]:
        name = path.decode()
        for block in good_records(name, damaged[name]):
            yield np.array(block, object)

    return read


def good_records(path: str, left_out: frozenset[int]) -> Iterator[list[bytes]]:
    """The good records of a damaged file, in blocks, without the records numbered `left_out`."""
    block: list[bytes] = []
    for record in record_scanner.scan(path):
        if isinstance(record, record_scanner.Record) and record.number not in left_out:
            block.append(record.payload)
            if len(block) == BLOCK:
                yield block
                block = []
    if block:
        yield block


def numbered(of_file: tf.data.Dataset) -> tf.data.Dataset:
    """Adds to each block of a file the int64 places of its records in the file."""

    def number(seen: tf.Tensor, block: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        end = seen + tf.size(block, tf.int64)
        return end, (block, tf.range(seen, end))

    return of_file.scan(tf.constant(0, tf.int64), number)


def dealt(numbered: tf.data.Dataset, shard: Shard) -> tf.data.Dataset:
    """Every `shard.count`th record of a file, in blocks, with the places of the records in it."""

    def deal(block: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first = tf.math.floormod(shard.index - numbers[0], shard.count)
        return block[first :: shard.count], numbers[first :: shard.count]

    return numbered.map(deal).rebatch(BLOCK)


def _named(files: Sequence[str], damaged: Damaged = NO_DAMAGE) -> tf.data.Dataset:
    """The path, the compression and the stored length of each file, and whether it is damaged."""
    file_lengths.check([path for path in files if path not in damaged])
    compressions = [compression_type(path) for path in files]
    stored = file_bytes.stored_lengths(files)
    are_damaged = [path in damaged for path in files]
    return tf.data.Dataset.from_tensor_slices((list(files), compressions, stored, are_damaged))


def of_files(
    named: tf.data.Dataset, count: int, read: Callable[..., tf.data.Dataset], *, interleaved: bool
) -> tf.data.Dataset:
    """Reads one file after the other with `read`, or several files in turn and in parallel.

    The order is the same at each reading. `named` has one element for each of the `count` files.
    """
    if not interleaved:
        return named.flat_map(read)
    return named.interleave(
        read,
        cycle_length=min(OPEN_FILES, count),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


@as_written
def count_records(
    files: Sequence[str], shard: Shard = Shard(), *, damaged: Damaged = NO_DAMAGE
) -> int:
    """Counts the records of a shard.

    Local files that are not compressed are counted by their lengths (`file_lengths.count`). Other
    files are read once, without parsing them.

    Raises:
      DataError: a file is corrupt and not listed in `damaged`. A wrong checksum of a payload is
        only found in files that are read.
    """
    total, rest = 0, []
    for path in files:
        count = file_lengths.count(path) if path not in damaged else None
        if count is None:
            rest.append(path)
        else:
            total += len(range(shard.index, count, shard.count))
    if not rest:
        return total
    with naming_what_is_corrupt(rest, damaged):
        read = blocks(rest, shard, interleaved=True, damaged=damaged)
        sizes = read.map(lambda block: tf.size(block, tf.int64))
        return int(sizes.reduce(tf.constant(total, tf.int64), lambda total, size: total + size))


@contextlib.contextmanager
def naming_what_is_corrupt(files: Sequence[str], damaged: Damaged = NO_DAMAGE) -> Iterator[None]:
    """Replaces a read error that names no file by one that names the file and the record."""
    try:
        yield
    except READ_ERRORS as error:
        for path in files:
            broken = corruption(path) if path not in damaged else None
            if broken is not None:
                raise DataError(broken) from error
        raise


def corruption(path: str) -> Optional[str]:
    """A sentence that names the first bad record of a file, or None if the file is intact."""
    bad = record_scanner.first_bad(path)
    return None if bad is None else f"{path}: {bad.sentence}"
