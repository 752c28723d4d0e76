"""Writes TFRecord files of `tf.train.Example`s or SequenceExamples from Python values.

    write_examples("data.tfrecord.gz", [{"user": "ann", "click": 1}])

Use it for small data: tests, demos, a converted CSV. A file is GZIP if its name ends in .gz or
.gzip. It gets its name only when it is complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from feature_specs.files import staged
from input_pipelines.record_files.framing import LARGEST_RECORD
from input_pipelines.record_files.tfrecords import compression_type

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

Value = Union[str, bytes, int, float, Sequence[Union[str, bytes, int, float]], np.ndarray]
# A SequenceExample: the context, and the steps of each feature list.
SequenceRow = tuple[Mapping[str, Any], Mapping[str, Optional[Sequence[Any]]]]


def example(row: Mapping[str, Value]) -> tf.train.Example:
    """Makes a `tf.train.Example` of one row. A value is a number, a string, or a list of either.

    Integers and booleans are stored as int64, other numbers as float, and text as UTF-8. The value
    None is not stored: the feature is missing.
    """
    features = {name: _feature(name, value) for name, value in row.items() if value is not None}
    return tf.train.Example(features=tf.train.Features(feature=features))


def sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Optional[Sequence[Any]]]
) -> tf.train.SequenceExample:
    """Makes a `tf.train.SequenceExample` of one row.

    Args:
      context: values as for `example`.
      feature_lists: a list of steps for each name. A step is one number or string. (It may also be
        a list of them, which the kit writes but does not read.) All steps are stored with the same
        type. With None the feature list is missing; an empty list is a feature list without steps.
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
        return tf.train.Feature()  # An empty list has no type; readers of any type accept it.
    if all(isinstance(v, (str, bytes)) for v in values):
        encoded = [v.encode() if isinstance(v, str) else v for v in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    if all(isinstance(v, (int, np.integer, np.bool_)) for v in values):
        if not all(-(2**63) <= int(v) < 2**63 for v in values):
            raise ValueError(f"{name!r}: got {value!r}, which does not fit into an int64")
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(v) for v in values]))
    if all(isinstance(v, (int, float, np.integer, np.floating)) for v in values):
        if any(math.isfinite(v) and abs(v) > _LARGEST_FLOAT32 for v in values):
            raise ValueError(f"{name!r}: got {value!r}, which does not fit into a float32")
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    raise TypeError(
        f"{name!r}: got {value!r}, expected a number, a string, or a flat list of either"
    )


def write_examples(path: str, rows: Iterable[Mapping[str, Value]]) -> int:
    """Writes one TFRecord file, and returns the number of rows. GZIP if its name ends in .gz.

    Missing folders are created. The file is written under a temporary name in the same folder and
    renamed when it is complete, so that a reader never finds half a file.
    """
    return _write(path, rows, example)


def write_sequence_examples(path: str, rows: Iterable[SequenceRow]) -> int:
    """Like `write_examples`, but writes `tf.train.SequenceExample`s.

        write_sequence_examples(path, [({"user": "ann", "click": 1}, {"prices": [2.5, 3.0]})])

    Args:
      path: the file.
      rows: the context and the feature lists of each record, as `{name: value}` and
        `{name: [value of step 0, value of step 1, ...]}`. With None a feature or feature list is
        missing; an empty list is a feature list without steps.
    """
    return _write(path, rows, lambda row: sequence_example(*row))


def _write(path: str, rows: Iterable[Any], encode: Callable[[Any], Any]) -> int:
    count, compression = 0, compression_type(path)
    with staged.file(path) as temporary, tf.io.TFRecordWriter(temporary, compression) as writer:
        for row in rows:
            try:
                record = encode(row)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{path}: row {count}: {error}") from error
            content = record.SerializeToString(deterministic=True)
            if len(content) > LARGEST_RECORD:
                raise ValueError(
                    f"{path}: row {count}: it has {len(content):,} bytes, expected at most "
                    f"{LARGEST_RECORD:,}. Leave out its largest features."
                )
            writer.write(content)
            count += 1
    return count
