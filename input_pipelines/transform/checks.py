"""Checks of values inside the input graph. Each returns its tensor unchanged or stops the step.

A failed check names the feature or label, but not the record. `diagnosis` finds the record after a
failure, so that successful steps do not pay for it. The checks are the same in training,
evaluation, prediction and serving. They never change a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Optional

import tensorflow as tf

from feature_specs.feature import Feature, Raw
from feature_specs.heads.base import LabelPart
from feature_specs.kinds import Column, Identity

# The messages begin with this, so that they can be distinguished from TensorFlow's messages.
PREFIX = "estimator_kit input check: "

# The errors that TensorFlow raises for a record that cannot be used. Its message may quote the
# record. If the record is not UTF-8, Python raises a UnicodeDecodeError instead.
BAD_RECORD_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    UnicodeDecodeError,
)


def text_of(error: Exception) -> Optional[str]:
    """The message of a failed check without the text TensorFlow adds; None for another error."""
    line = next((line for line in str(error).splitlines() if PREFIX in line), None)
    if line is None:
        return None
    before, _, text = line.partition(PREFIX)
    text = text.replace("\\'", "'").strip(' "')
    # A graph puts brackets around the message. The message itself may end with one, as in [0, 1].
    return text.removesuffix("]").rstrip(' "') if before.rstrip(' "').endswith("[") else text


def finite(numbers: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The same float tensors [rows, n], after one check of all of them for NaN and infinity."""
    if len(numbers) < 2:
        return {name: all_finite([name], values) for name, values in numbers.items()}
    together = all_finite(numbers, tf.concat(list(numbers.values()), axis=1))
    parts = tf.split(together, [int(n.shape[1]) for n in numbers.values()], axis=1)
    return dict(zip(numbers, parts))


def all_finite(names: Iterable[str], values: tf.Tensor) -> tf.Tensor:
    """Numbers of the named columns in one tensor, checked for NaN and infinity."""
    message = f"{PREFIX}NaN or infinity in one of the columns {', '.join(names)}"
    return tf.debugging.check_numerics(values, message)


def finite_feature(name: str, values: Any) -> Any:
    """The values of a feature, dense or ragged. If they are float32, checked as in `finite`."""
    if values.dtype != tf.float32:
        return values
    message = f"{PREFIX}NaN or infinity in feature {name!r}"
    return tf.ragged.map_flat_values(tf.debugging.check_numerics, values, message)


def same_rows(tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Tensors [rows, ...] of a request, checked to have the same number of rows."""
    if len(tensors) < 2:
        return tensors
    rows = _rows(list(tensors.values()))
    good = tf.reduce_all(tf.equal(rows, rows[0]))
    message = f"{PREFIX}the tensors differ in their number of rows: {', '.join(tensors)}:"
    with tf.control_dependencies([tf.debugging.Assert(good, [message, rows], summarize=1000)]):
        return dict(zip(tensors, tf.identity_n(list(tensors.values()))))


def _rows(tensors: list[tf.Tensor]) -> tf.Tensor:
    """The number of rows of each tensor, int32 [tensors]. `tf.shape(x)[0]` has four constants."""
    first, next_ = tf.constant([0]), tf.constant([1])
    counts: dict[int, tf.Tensor] = {}
    for dtype in dict.fromkeys(values.dtype for values in tensors):
        places = [i for i, values in enumerate(tensors) if values.dtype == dtype]
        shapes = tf.shape_n([tensors[i] for i in places])
        for i, shape in zip(places, shapes):
            counts[i] = tf.raw_ops.StridedSlice(
                input=shape, begin=first, end=next_, strides=next_, shrink_axis_mask=1
            )
    return tf.stack([counts[i] for i in range(len(tensors))])


def in_range(column: Identity, values: tf.Tensor) -> tf.Tensor:
    """Ids of an identity column without a default, checked to be inside its size."""
    good = tf.reduce_all((values >= 0) & (values < column.size))
    with tf.control_dependencies([tf.debugging.Assert(good, [_out_of_range(column)])]):
        return tf.identity(values)


def all_in_range(columns: Sequence[Identity], values: tf.Tensor) -> tf.Tensor:
    """Like `in_range`, for the ids of several columns, int64 [columns, rows]."""
    sizes = tf.constant([[column.size] for column in columns], tf.int64)
    bad = tf.reduce_any((values < 0) | (values >= sizes), axis=1)
    messages = tf.constant([_out_of_range(column) for column in columns])
    message = tf.gather(messages, tf.argmax(tf.cast(bad, tf.int32)))
    with tf.control_dependencies([tf.debugging.Assert(~tf.reduce_any(bad), [message])]):
        return tf.identity(values)


def _out_of_range(column: Identity) -> str:
    return f"{PREFIX}feature {column.source!r} must be in [0, {column.size})"


def weights_of_ids(
    column: Column, ids: tf.RaggedTensor, weights: tf.RaggedTensor
) -> tf.RaggedTensor:
    """float32 weights [rows, None] of a weighted column, checked: finite, and one for each id."""
    message = (
        f"{PREFIX}feature {column.weighted_by!r} must be finite, and have as many values as column "
        f"{column.ids_source!r} has ids in each record"
    )
    good = tf.reduce_all(tf.equal(ids.row_lengths(), weights.row_lengths()))
    good &= tf.reduce_all(tf.math.is_finite(weights.flat_values))
    with tf.control_dependencies([tf.debugging.Assert(good, [message])]):
        return weights.with_flat_values(tf.identity(weights.flat_values))


def same_lengths(group: str, steps: dict[str, tf.RaggedTensor]) -> dict[str, tf.RaggedTensor]:
    """The columns [rows, None] of a sequence group, checked: in a row, their lengths are equal."""
    first, *others = (values.row_lengths() for values in steps.values())
    if not others:
        return steps
    message = f"{PREFIX}the lists of group {group!r} differ in length: {', '.join(steps)}"
    good = tf.reduce_all([tf.reduce_all(tf.equal(first, other)) for other in others])
    with tf.control_dependencies([tf.debugging.Assert(good, [message])]):
        return {
            name: values.with_flat_values(tf.identity(values.flat_values))
            for name, values in steps.items()
        }


def one_item_a_step(
    label: str, items: tf.RaggedTensor, feature: str, steps: tf.RaggedTensor
) -> tf.RaggedTensor:
    """A label [rows, None] of items, checked: it has one item for each step of a feature."""
    message = f"{PREFIX}label {label!r} must have as many values as feature {feature!r}"
    good = tf.reduce_all(tf.equal(items.row_lengths(), steps.row_lengths()))
    with tf.control_dependencies([tf.debugging.Assert(good, [message])]):
        return items.with_flat_values(tf.identity(items.flat_values))


def one_value_a_step(name: str, steps: tf.RaggedTensor) -> tf.RaggedTensor:
    """A feature list [rows, steps, values] as [rows, steps], checked: each step has one value."""
    message = f"{PREFIX}feature {name!r} must have one value in each step of its feature list"
    good = tf.reduce_all(tf.equal(steps.values.row_lengths(), 1))
    with tf.control_dependencies([tf.debugging.Assert(good, [message])]):
        return steps.with_values(tf.identity(steps.flat_values))


def row_lengths(
    name: str, lengths_name: str, values: tf.RaggedTensor, lengths: tf.RaggedTensor
) -> tf.RaggedTensor:
    """Splits lists [rows, None] into lists of lists [rows, None, None] of the given lengths.

    Checks that no length is negative, and that the lengths of a row add up to its number of values.
    """
    message = (
        f"{PREFIX}feature {lengths_name!r} must be 0 or more, and add up to the number of values "
        f"of {name!r} in each record"
    )
    good = tf.reduce_all(lengths.flat_values >= 0)
    good &= tf.reduce_all(tf.equal(tf.reduce_sum(lengths, axis=1), values.row_lengths()))
    with tf.control_dependencies([tf.debugging.Assert(good, [message])]):
        flat = tf.identity(values.flat_values)
        each = tf.identity(lengths.flat_values)
    lists = tf.RaggedTensor.from_row_lengths(flat, each, validate=False)
    return lengths.with_values(lists)


def bytes_of_numbers(name: str, feature: Feature, stored: tf.Tensor) -> tf.Tensor:
    """Strings [rows] of a feature with `decode: raw`, checked to have the right number of bytes."""
    assert isinstance(feature.decode, Raw)
    expected = feature.decode.stored_bytes
    message = f"{PREFIX}feature {name!r} must have {expected} bytes"
    lengths = tf.strings.length(stored)
    good = tf.equal(lengths, expected)
    if feature.default is not None:
        good |= tf.equal(lengths, 0)
        message += ", or none"
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(good), [message])]):
        return tf.identity(stored)


def images(
    name: str, feature: Feature, stored: tf.Tensor, beginnings: tuple[bytes, ...]
) -> tf.Tensor:
    """Strings [rows] of a feature with `decode: image`, checked to begin like an image file."""
    message = f"{PREFIX}feature {name!r} must be a JPEG, PNG, GIF or BMP image"
    if feature.default is not None:
        beginnings = (b"", *beginnings)
        message += ", or empty"
    begins = tf.strings.substr(stored, 0, 2)
    good = tf.reduce_any(tf.equal(begins[:, tf.newaxis], tf.constant(beginnings)), axis=1)
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(good), [message])]):
        return tf.identity(stored)


def label(
    name: str,
    values: tf.Tensor,
    bounds: tuple[Optional[float], Optional[float]],
    *,
    whole: bool = False,
) -> tf.Tensor:
    """Labels of any shape, checked: finite, and inside the given bounds (both included).

    With `whole`, they must also be integers: a label of classes may be a float32.
    """
    return bounded(f"{PREFIX}label {name!r}", values, bounds, whole=whole)


def part(part: LabelPart, values: tf.Tensor) -> tf.Tensor:
    """A part of a label, [rows], checked as a label is."""
    return bounded(f"{PREFIX}the {part.field} {part.name!r}", values, part.bounds)


def bounded(
    what: str,
    values: tf.Tensor,
    bounds: tuple[Optional[float], Optional[float]],
    *,
    whole: bool = False,
) -> tf.Tensor:
    """Numbers of any shape, checked as in `label`. `what` begins the message."""
    low, high = bounds
    good = tf.math.is_finite(tf.cast(values, tf.float32))
    message = "must be finite"
    if low is not None:
        good &= values >= low
        message = f"must be finite and {low} or more" if high is None else ""
    if high is not None:
        good &= values <= high
        message = f"must be in [{low}, {high}]"
    if whole and values.dtype.is_floating:
        good &= tf.equal(values, tf.floor(values))
        message = f"must be an integer in [{low}, {high}]"
    check = tf.debugging.Assert(tf.reduce_all(good), [f"{what} {message}"])
    with tf.control_dependencies([check]):
        return tf.identity(values)


def label_present(name: str, present: tf.Tensor) -> tf.Tensor:
    """bool [rows], checked to be all true."""
    check = tf.debugging.Assert(tf.reduce_all(present), [f"{PREFIX}label {name!r} is missing"])
    with tf.control_dependencies([check]):
        return tf.identity(present)


def label_length(name: str, values: tf.RaggedTensor, length: int) -> tf.RaggedTensor:
    """Labels that may be missing, checked to have `length` values or none."""
    message = f"{PREFIX}label {name!r} must have {length} values, or none"
    lengths = values.row_lengths()
    good = tf.reduce_all(tf.equal(lengths, length) | tf.equal(lengths, 0))
    with tf.control_dependencies([tf.debugging.Assert(good, [message])]):
        return values.with_flat_values(tf.identity(values.flat_values))


def weight(name: str, weight: tf.Tensor) -> tf.Tensor:
    """Weights [rows] of a label, checked: finite and 0 or more."""
    message = f"{PREFIX}the weight of label {name!r} must be finite and not below zero"
    good = tf.reduce_all(tf.math.is_finite(weight) & (weight >= 0))
    with tf.control_dependencies([tf.debugging.Assert(good, [message])]):
        return tf.identity(weight)
