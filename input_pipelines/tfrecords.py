"""Reads and writes TFRecord files of `tf.train.Example`s or SequenceExamples, plain or GZIP.

Reading works on *blocks*, string tensors of many records, because tf.data's cost is per element
and not per byte. `write_examples` and `write_sequence_examples` write small data (a test, a demo, a
converted CSV) from Python values; a file is GZIP when its name ends in .gz, and appears under its
name only when it is whole.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from input_pipelines.errors import DataError
from input_pipelines.sharding import Shard
from input_pipelines.tables import kinds

# Records in a block: large enough to make tf.data's per-element cost vanish, small enough to
# shuffle and to keep in memory (a few MB).
BLOCK = 1024

# Records at the start of a file that a run looks at before it begins.
_FIRST = 64

# Files that are read at the same time, so that a shuffled window holds rows of several.
_OPEN_FILES = 16

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

_GZIP_SUFFIXES = (".gz", ".gzip")

Value = Union[str, bytes, int, float, Sequence[Union[str, bytes, int, float]], np.ndarray]
# Of a SequenceExample: the context, and the steps of each feature list.
SequenceRow = tuple[Mapping[str, Any], Mapping[str, Optional[Sequence[Any]]]]


def compression_type(path: str) -> str:
    """`GZIP` for a name that ends in .gz or .gzip, otherwise none."""
    return "GZIP" if path.endswith(_GZIP_SUFFIXES) else ""


def blocks(
    files: Sequence[str], shard: Shard = Shard(), *, interleaved: bool = False
) -> tf.data.Dataset:
    """The records of some files as string tensors of up to `BLOCK` records.

    Args:
      files: paths; each is opened once, in this order.
      shard: which records of each file are read; `Shard.deal` gives it beside the files.
      interleaved: take blocks from several files in turn, for shuffling, instead of reading one
        file after the other. The order is the same at each reading either way.
    """
    def read(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, compression_type=compression)
        if shard.count > 1:
            records = records.shard(shard.count, shard.index)
        return records.batch(BLOCK)

    return _interleaved(files, read) if interleaved else _named(files).flat_map(read)


def _named(files: Sequence[str]) -> tf.data.Dataset:
    """The path and the compression of each file."""
    compressions = [compression_type(path) for path in files]
    return tf.data.Dataset.from_tensor_slices((list(files), compressions))


def _interleaved(files: Sequence[str], read: Callable[..., tf.data.Dataset]) -> tf.data.Dataset:
    """Elements of several files in turn, read in parallel, in the same order at each reading."""
    return _named(files).interleave(
        read,
        cycle_length=min(_OPEN_FILES, len(files)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def count_records(files: Sequence[str], shard: Shard = Shard()) -> int:
    """How many records a shard of the files holds, by reading them all once, unparsed.

    Raises:
      DataError: a file is corrupt.
    """
    with _naming_what_is_corrupt(files):
        sizes = blocks(files, shard, interleaved=True).map(lambda block: tf.size(block, tf.int64))
        return int(sizes.reduce(tf.constant(0, tf.int64), lambda total, size: total + size))


def first_records(files: Sequence[str]) -> dict[str, list[bytes]]:
    """The first records, up to 64, of each file that has any.

    Raises:
      DataError: a file is corrupt there, or is no TFRecord file.
    """

    def read(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, compression_type=compression)
        return records.take(_FIRST).batch(_FIRST).map(lambda first: (path, first))

    found = _interleaved(files, read)
    with _naming_what_is_corrupt(files):
        return {path.decode(): list(first) for path, first in found.as_numpy_iterator()}


@contextlib.contextmanager
def _naming_what_is_corrupt(files: Sequence[str]) -> Iterator[None]:
    """Turns the error of a reading that names no file into one that does."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError):
        for path in files:
            broken = corruption(path)
            if broken is not None:
                raise DataError(broken) from None
        raise


def first_line(error: tf.errors.OpError) -> str:
    """What a TensorFlow error says, without the node and the op that it puts around it."""
    text = error.message.strip().splitlines()[0]
    return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\].*$", "", text).strip()


def corruption(path: str) -> Optional[str]:
    """A sentence saying where the framing of a file breaks, or None for a file that is whole."""
    count = 0
    try:
        for _ in tf.data.TFRecordDataset(path, compression_type(path)):
            count += 1
    except tf.errors.OpError as error:
        reason = first_line(error)
        if count:
            return f"{path}: corrupt after record {count - 1}: {reason}"
        kind = kinds.kind_of(path)
        if kind != kinds.TFRECORD:
            return (
                f"{path}: is {kind} by its name, and no TFRecord file; analysis reads tables, all "
                "else reads TFRecords: convert it with --mode=convert"
            )
        named = "is GZIP" if compression_type(path) else "is not compressed"
        return (
            f"{path}: corrupt from its start: {reason}; by its name it {named}: "
            "is that so, and is it a TFRecord file? (Tables end in .csv, .tsv, .json, .jsonl or "
            ".parquet.)"
        )
    return None


def example(row: Mapping[str, Value]) -> tf.train.Example:
    """A `tf.train.Example` of one row; a value is one number or string, or a list of them.

    Integers and booleans are stored as int64, other numbers as float, text as UTF-8. A value of
    None is left out, as a missing feature.
    """
    features = {name: _feature(name, value) for name, value in row.items() if value is not None}
    return tf.train.Example(features=tf.train.Features(feature=features))


def sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Optional[Sequence[Any]]]
) -> tf.train.SequenceExample:
    """A `tf.train.SequenceExample` of one row.

    Args:
      context: values as for `example`.
      feature_lists: a list of steps each, and a step is one number or string. (It may be a list
        of them, which the kit writes but does not read.) All steps are stored with one type. None
        leaves the feature list out; an empty list is there and has no step.
    """
    lists = {n: _feature_list(n, steps) for n, steps in feature_lists.items() if steps is not None}
    return tf.train.SequenceExample(
        context=example(context).features, feature_lists=tf.train.FeatureLists(feature_list=lists)
    )


def _feature_list(name: str, steps: Sequence[Any]) -> tf.train.FeatureList:
    if isinstance(steps, (str, bytes)) or not isinstance(steps, (list, tuple, np.ndarray)):
        raise TypeError(f"{name!r}: got {steps!r}, expected a list of steps")
    parts = [list(s) if isinstance(s, (list, tuple, np.ndarray)) else [s] for s in steps]
    together = _feature(name, [value for part in parts for value in part])
    kind = together.WhichOneof("kind")
    features = []
    end = 0
    for part in parts:
        step = tf.train.Feature()
        end += len(part)
        if part and kind:
            getattr(step, kind).value.extend(getattr(together, kind).value[end - len(part) : end])
        features.append(step)
    return tf.train.FeatureList(feature=features)


def _feature(name: str, value: Any) -> tf.train.Feature:
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
    if not values:
        return tf.train.Feature()  # An empty list has no type; readers of any type take this.
    if all(isinstance(v, (str, bytes)) for v in values):
        encoded = [v.encode() if isinstance(v, str) else v for v in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    if all(isinstance(v, (int, np.integer, np.bool_)) for v in values):
        if not all(-(2**63) <= int(v) < 2**63 for v in values):
            raise ValueError(f"{name!r}: got {value!r}, which no int64 holds")
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(v) for v in values]))
    if all(isinstance(v, (int, float, np.integer, np.floating)) for v in values):
        if any(math.isfinite(v) and abs(v) > _LARGEST_FLOAT32 for v in values):
            raise ValueError(f"{name!r}: got {value!r}, which no float32 holds")
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    raise TypeError(
        f"{name!r}: got {value!r}, expected a number, a string, or a flat list of either"
    )


def write_examples(path: str, rows: Iterable[Mapping[str, Value]]) -> int:
    """Writes one TFRecord file, with GZIP when its name ends in .gz, and returns the row count.

    Missing folders are made. The file is written beside its place and renamed when it is whole,
    so that a reader never finds half of it.
    """
    return _write(path, rows, example)


def write_sequence_examples(path: str, rows: Iterable[SequenceRow]) -> int:
    """As `write_examples`, of `tf.train.SequenceExample`s.

        write_sequence_examples(path, [({"user": "ann", "click": 1}, {"prices": [2.5, 3.0]})])

    Args:
      path: the file.
      rows: of each record its context and its feature lists, as `{name: value}` and
        `{name: [value of step 0, value of step 1, ...]}`. None leaves a feature or a feature list
        out; an empty list is a feature list without steps.
    """
    return _write(path, rows, lambda row: sequence_example(*row))


def _write(path: str, rows: Iterable[Any], encode: Callable[[Any], Any]) -> int:
    folder, name = os.path.split(path)
    tf.io.gfile.makedirs(folder or ".")
    temporary = os.path.join(folder, f".tmp-{name}")
    count = 0
    try:
        with tf.io.TFRecordWriter(temporary, compression_type(path)) as writer:
            for row in rows:
                try:
                    record = encode(row)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{path}: row {count}: {error}") from error
                writer.write(record.SerializeToString(deterministic=True))
                count += 1
        tf.io.gfile.rename(temporary, path, overwrite=True)
    finally:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)
    return count
