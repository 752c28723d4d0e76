"""Whether records are Examples or SequenceExamples, as the spec says: a check inside the graph.

    records = record_kind.checked(spec, serialized)

TensorFlow's parsers read either kind as the other without an error, and lose a part of it (see
`stored_records`, which tells them apart in the same way, one record at a time). So whatever reads
files asks here, for each record; what serves requests does not. Changes no record.
"""

from __future__ import annotations

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks


def checked(spec: FeatureSpec, serialized: tf.Tensor) -> tf.Tensor:
    """The same string [rows] of serialized records.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: a record is of the other kind.
      tf.errors.DataLossError: a record is neither.
    """
    rows = tf.size(serialized)
    if spec.sequence_examples:
        good = tf.cond(rows > 0, lambda: _no_examples(spec, serialized), _yes)
        message = "a record is a tf.train.Example, and the spec reads tf.train.SequenceExamples"
    else:
        good = tf.cond(rows > 0, lambda: ~tf.reduce_any(_have_lists(serialized)), _yes)
        message = "a record has feature_lists, and the spec reads tf.train.Examples"
    with tf.control_dependencies([tf.debugging.Assert(good, [f"{checks.PREFIX}{message}"])]):
        return tf.identity(serialized)


def _yes() -> tf.Tensor:
    return tf.constant(True)


def _have_lists(serialized: tf.Tensor) -> tf.Tensor:
    """bool [rows]: which records, one at least, have a feature list."""
    message, field = "tensorflow.SequenceExample", "feature_lists"
    found = tf.io.decode_proto(serialized, message, [field], [tf.string])
    return tf.reduce_any(tf.strings.length(found.values[0]) > 0, axis=1)


def _no_examples(spec: FeatureSpec, serialized: tf.Tensor) -> tf.Tensor:
    """False if a record has no feature list, and one of the spec's among its features."""
    without = tf.boolean_mask(serialized, ~_have_lists(serialized))
    entries = {name: tf.io.VarLenFeature(spec.features[name].dtype) for name in spec.feature_lists}

    def look() -> tf.Tensor:
        inside, _, _ = tf.io.parse_sequence_example(without, entries)
        return tf.reduce_all([tf.equal(tf.size(values.values), 0) for values in inside.values()])

    return tf.cond(tf.size(without) > 0, look, _yes)
