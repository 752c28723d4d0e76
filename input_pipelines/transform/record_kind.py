"""Checks inside the graph that records have the spec's kind: Examples or SequenceExamples.

    records = record_kind.checked(spec, serialized)

TensorFlow's parsers read each kind as the other one without an error, and lose a part of it.
(`stored_records` distinguishes them in the same way, one record at a time.) So all code that reads
files checks every record here. Serving does not. Never changes a record.
"""

from __future__ import annotations

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks


def checked(spec: FeatureSpec, serialized: tf.Tensor) -> tf.Tensor:
    """The same string [rows] of serialized records.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: a record has the other kind.
      tf.errors.DataLossError: a record is neither.
    """
    rows = tf.size(serialized)
    if spec.sequence_examples:
        good = tf.cond(rows > 0, lambda: _no_examples(spec, serialized), _yes)
        message = "a record is a tf.train.Example, but the spec describes SequenceExamples"
    else:
        good = tf.cond(rows > 0, lambda: ~tf.reduce_any(_have_lists(serialized)), _yes)
        message = "a record has feature_lists, but the spec describes tf.train.Examples"
    with tf.control_dependencies([tf.debugging.Assert(good, [f"{checks.PREFIX}{message}"])]):
        return tf.identity(serialized)


def _yes() -> tf.Tensor:
    return tf.constant(True)


def _have_lists(serialized: tf.Tensor) -> tf.Tensor:
    """bool [rows]: which records have a feature list. Needs at least one record."""
    message, field = "tensorflow.SequenceExample", "feature_lists"
    found = tf.io.decode_proto(serialized, message, [field], [tf.string])
    return tf.reduce_any(tf.strings.length(found.values[0]) > 0, axis=1)


def _no_examples(spec: FeatureSpec, serialized: tf.Tensor) -> tf.Tensor:
    """False if a record has no feature list, but a feature with the name of one in the spec."""
    without = tf.boolean_mask(serialized, ~_have_lists(serialized))
    entries = {name: tf.io.VarLenFeature(spec.features[name].dtype) for name in spec.feature_lists}

    def look() -> tf.Tensor:
        inside, _, _ = tf.io.parse_sequence_example(without, entries)
        return tf.reduce_all([tf.equal(tf.size(values.values), 0) for values in inside.values()])

    return tf.cond(tf.size(without) > 0, look, _yes)
