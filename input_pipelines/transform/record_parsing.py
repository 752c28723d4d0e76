"""Parses serialized records into one tensor for each feature, as the first step of `Transform`.

Only this module distinguishes specs of SequenceExamples from specs of Examples. A feature list with
one value in each step becomes a list [rows, steps] like any other list. Lists of lists are also
assembled here. Parses whole batches and keeps no state between them.

TensorFlow's parsers read each kind as the other one without an error, and lose a part of it. So all
code that reads files first passes every record through `checked`. Serving does not.
(`integrity.stored_records` distinguishes the kinds in the same way, one record at a time.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from feature_specs.reference import columns
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks


class RecordParser:
    """Parses batches of records of one spec.

    Args:
      spec: the feature spec.
    """

    def __init__(self, spec: FeatureSpec):
        self._features = columns.feature_parse_dict(spec)
        self._labels = columns.label_parse_dict(spec)
        self._feature_lists = columns.feature_list_parse_dict(spec)
        self._sequence_examples = spec.sequence_examples
        self._row_lengths = {
            name: feature.row_lengths
            for name, feature in spec.features.items()
            if feature.row_lengths is not None
        }
        self._nested = {name for name, feature in spec.features.items() if feature.nested}

    def parse_label_feature(self, serialized: tf.Tensor, name: str) -> tf.Tensor:
        """Parses only one feature of `columns.label_parse_dict`, as [rows]."""
        entries = {name: self._labels[name]}
        if self._sequence_examples:
            return tf.io.parse_sequence_example(serialized, entries)[0][name]
        return tf.io.parse_example(serialized, entries)[name]

    def parse(self, serialized: tf.Tensor, *, with_labels: bool) -> dict[str, Any]:
        """Parses a string [rows] to `{feature: Tensor [rows, ...] or RaggedTensor [rows, None]}`.

        Lists of lists are RaggedTensors [rows, None, None]. Labels and their weights are parsed
        only `with_labels`.

        Raises (in the graph):
          tf.errors.InvalidArgumentError: a record lacks a required feature or feature list; or it
            has another dtype, length, or number of values in a step than declared; or the lengths
            of its lists do not fit.
        """
        return self.checked(self.flat(serialized, with_labels=with_labels))

    def checked(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """The same, but each list of lists in Examples is assembled from its two flat lists."""
        for name, lengths in self._row_lengths.items():
            if name in parsed:
                parsed[name] = checks.row_lengths(name, lengths, parsed[name], parsed[lengths])
        return parsed

    def flat(self, serialized: tf.Tensor, *, with_labels: bool) -> dict[str, Any]:
        """Like `parse`, but without `checked`."""
        entries = {**self._features, **self._labels} if with_labels else self._features
        entries = _with_shared_defaults(entries)
        if not self._sequence_examples:
            result: dict[str, Any] = tf.io.parse_example(serialized, entries)
            return result
        context, lists, lengths = tf.io.parse_sequence_example(
            serialized, entries, self._feature_lists
        )
        for name, steps in lists.items():
            if name in self._nested:
                continue  # It stays [rows, steps, values].
            if isinstance(steps, tf.RaggedTensor):
                lists[name] = checks.one_value_a_step(name, steps)
            else:  # A required list is padded, and its lengths are returned separately.
                lists[name] = tf.RaggedTensor.from_tensor(
                    steps, tf.cast(lengths[name], tf.int64), row_splits_dtype=tf.int64
                )
        return {**context, **lists}


def _with_shared_defaults(entries: dict[str, Any]) -> dict[str, Any]:
    """The same entries with equal defaults as one tensor. TensorFlow makes three ops for each."""
    constants: dict[Any, tf.Tensor] = {}

    def shared(entry: Any) -> Any:
        if not isinstance(entry, tf.io.FixedLenFeature):
            return entry
        # A required feature has an empty default.
        default = [] if entry.default_value is None else entry.default_value
        dtype = tf.as_dtype(entry.dtype)
        is_text = dtype == tf.string
        value = np.array(default, object if is_text else dtype.as_numpy_dtype)
        key = dtype, value.shape, tuple(value.flat) if is_text else value.tobytes()
        if key not in constants:
            constants[key] = tf.constant(value, dtype)
        return entry._replace(default_value=constants[key])

    return {name: shared(entry) for name, entry in entries.items()}


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
    decoded = tf.io.decode_proto(serialized, message, [field], [tf.string])
    return tf.reduce_any(tf.strings.length(decoded.values[0]) > 0, axis=1)


def _no_examples(spec: FeatureSpec, serialized: tf.Tensor) -> tf.Tensor:
    """False if a record has no feature list, but a feature with the name of one in the spec."""
    without = tf.boolean_mask(serialized, ~_have_lists(serialized))
    entries = {name: tf.io.VarLenFeature(spec.features[name].dtype) for name in spec.feature_lists}

    def look() -> tf.Tensor:
        inside, _, _ = tf.io.parse_sequence_example(without, entries)
        return tf.reduce_all([tf.equal(tf.size(values.values), 0) for values in inside.values()])

    return tf.cond(tf.size(without) > 0, look, _yes)
