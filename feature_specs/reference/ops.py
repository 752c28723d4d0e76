"""The TensorFlow ops of `decode`, of normalizers and of boundaries, for both readings of a spec.

    parsed = tf.io.parse_example(serialized, make_parse_example_spec(spec))
    features = decode_features(spec, parsed)      # the input of the columns of `feature_columns`
    normalizer_fn((Log1p(), Clip(...)))(x)        # the steps in order
    side_by_side_fn([first, second], [1, 3])(x)   # the steps of two columns, float32 [rows, 1 + 3]
    integer_buckets(x, [3, 10])                   # of int64: 0 below 3, 2 from 10 on

The ops decode a batch at once and do not check the bytes first: TensorFlow raises an error for
bytes that do not fit. The kit's own reading checks them before
(`input_pipelines.transform.checks`). Steps of float32 numbers are float32 ops. Integers are
subtracted and compared as int64, and only the difference becomes a float32
(`feature_specs.kinds.normalizers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from feature_specs.feature import Feature, Image, Raw
from feature_specs.kinds import normalizers
from feature_specs.kinds.bounds import nearest_float32
from feature_specs.kinds.normalizers import Clip, Log1p, MinMax, Normalizer, ZScore
from feature_specs.spec import FeatureSpec


def decode_features(spec: FeatureSpec, parsed: Mapping[str, Any]) -> dict[str, Any]:
    """Decodes the features with `decode` of a parsed batch to float32 [rows, *shape].

    All other features stay unchanged. `tf.feature_column` needs this, because it cannot decode.

    Args:
      spec: the feature spec.
      parsed: the result of `tf.io.parse_example` with `make_parse_example_spec`, or the parsed
        context of a SequenceExample.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: the bytes are not an image, or their number is wrong.
    """
    return {
        name: decoded(name, spec.features[name], value)
        if name in spec.features and spec.features[name].decode is not None
        else value
        for name, value in parsed.items()
    }


def decoded(name: str, feature: Feature, stored: tf.Tensor) -> tf.Tensor:
    """Decodes strings [rows] to float32 [rows, *shape]. `default: zeros` turns "" into zeros."""
    entry = feature.decode
    assert entry is not None, name
    zeros = feature.default is not None
    with tf.name_scope(f"decode_{name}"):
        if isinstance(entry, Raw):
            return _numbers(entry, stored, zeros)
        return _images(entry, stored, zeros)


def _numbers(entry: Raw, stored: tf.Tensor, zeros: bool) -> tf.Tensor:
    if zeros:
        stored = tf.where(tf.equal(stored, ""), tf.constant(bytes(entry.stored_bytes)), stored)
    values = tf.io.decode_raw(
        stored, tf.as_dtype(entry.raw.dtype), little_endian=entry.raw.little_endian
    )
    count = entry.stored_bytes // tf.as_dtype(entry.raw.dtype).size
    # Without this check, rows of twice the length would become twice as many rows. An empty batch
    # has no length and passes.
    fits = tf.logical_or(tf.equal(tf.size(stored), 0), tf.equal(tf.shape(values)[-1], count))
    check = tf.debugging.Assert(fits, [f"expected {entry.stored_bytes} bytes, got other lengths"])
    with tf.control_dependencies([check]):
        values = tf.cast(values, tf.float32)
    return tf.reshape(values, [-1, *entry.shape])


def _images(entry: Image, stored: tf.Tensor, zeros: bool) -> tf.Tensor:
    height, width, channels = entry.shape

    @tf.autograph.experimental.do_not_convert
    def image(content: tf.Tensor) -> tf.Tensor:
        pixels = tf.io.decode_image(content, channels=channels)
        # A GIF is [frames, height, width, 3]; other formats have no frames. Only the bytes tell the
        # format, so the rank is unknown here.
        size = tf.shape(pixels)[-3:]
        frames = tf.reshape(pixels, tf.concat([[-1], size], axis=0))
        check = tf.debugging.Assert(tf.equal(tf.shape(frames)[0], 1), ["expected one frame"])
        with tf.control_dependencies([check]):
            frames = tf.ensure_shape(frames, [None, None, None, channels])
        resized = tf.image.resize(frames[0], [height, width], method=entry.image.resize)
        return tf.cast(resized, tf.float32)

    @tf.autograph.experimental.do_not_convert
    def image_or_zeros(content: tf.Tensor) -> tf.Tensor:
        return tf.cond(
            tf.equal(content, ""),
            lambda: tf.zeros(entry.shape, tf.float32),
            lambda: image(content),
        )

    read = image_or_zeros if zeros else image
    if (
        tf.executing_eagerly()
    ):  # For diagnosis. In eager mode, map_fn logs an error for each failure.
        images = [read(content) for content in stored]
        pixels = tf.stack(images) if images else tf.zeros([0, *entry.shape])
    else:
        pixels = tf.map_fn(read, stored, fn_output_signature=tf.TensorSpec(entry.shape, tf.float32))
    return pixels / 255.0 if entry.image.scale else pixels


# The numbers of a step: one, or one for each number of a row.
Constant = Any

_LEAST, _MOST = -(2**63), 2**63 - 1

# A CPU computes up to this many numbers at once.
_AT_ONCE = 16

# Up to this many boundaries, each is compared. TensorFlow Lite and ONNX have no op for more.
_COMPARED = 128


def normalizer_fn(steps: tuple[Normalizer, ...]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that applies the steps in order to a tensor of any shape.

    The function takes float32 or int64 and returns float32 of the same shape. log1p of a number of
    -1 or less is not finite. The input checks report such numbers.
    """
    return side_by_side_fn([steps], [1])


def side_by_side_fn(
    columns: Sequence[tuple[Normalizer, ...]], widths: Sequence[int]
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Like `normalizer_fn`, for several columns side by side, [rows, sum of the widths].

    Args:
      columns: the steps of each column. All columns have the same kinds of steps in the same order.
      widths: how many numbers of a row each column has.
    """

    def constant(numbers: Sequence[float], dtype: Any = np.float32) -> Constant:
        if len(set(numbers)) == 1:
            return numbers[0]
        return np.repeat(np.array(numbers, dtype), widths)

    def normalize(values: tf.Tensor) -> tf.Tensor:
        first = 0
        if values.dtype.is_integer:
            first = normalizers.before_log(columns[0])
            values = _scaled([normalizers.scaling(c[:first]) for c in columns], constant, values)
        for steps in zip(*(column[first:] for column in columns)):
            values = _apply(steps, constant, values)
        return values

    return normalize


def replaced_fn(
    columns: Sequence[Optional[tuple[Any, Any]]], widths: Sequence[int]
) -> Optional[Callable[[tf.Tensor], tf.Tensor]]:
    """A function that replaces a value in several columns side by side, or None if it has no work.

    Args:
      columns: for each column, `Numeric.replaced`: (the value, its replacement), or None.
      widths: how many numbers of a row each column has.
    """
    if not any(columns):
        return None
    # Zeros become zeros in a column in which nothing is replaced.
    pairs = [pair or (0, 0) for pair in columns]

    def replaced(values: tf.Tensor) -> tf.Tensor:
        dtype = values.dtype.as_numpy_dtype
        old, new = (np.repeat(np.array(numbers, dtype), widths) for numbers in zip(*pairs))
        return tf.where(tf.equal(values, old), new, values)

    return replaced


def integer_buckets(values: tf.Tensor, limits: Sequence[Union[int, float]]) -> tf.Tensor:
    """How many limits each number reaches, int32 of the same shape.

    Args:
      values: int64 of any shape.
      limits: increasing integers, also infinite or too large for an int64; see `Bucketized.limits`.
    """
    always = sum(limit <= _LEAST for limit in limits)
    compared = [limit for limit in limits if _LEAST < limit <= _MOST]
    among = tf.constant(compared, tf.int64)
    if len(compared) > _COMPARED:
        reached = tf.searchsorted(among, tf.reshape(values, [-1]), side="right")
        reached = tf.reshape(reached, tf.shape(values))
    else:
        reached = tf.reduce_sum(tf.cast(values[..., tf.newaxis] >= among, tf.int32), axis=-1)
    return reached + always


def _scaled(
    columns: Sequence[normalizers.Scaling], constant: Callable[..., Constant], values: tf.Tensor
) -> tf.Tensor:
    """The scaling of each column, float32: the integer part of the center is subtracted first."""
    integer_parts = [column.whole for column in columns]
    numbers = tf.cast(values, tf.float32)
    if any(integer_parts):
        # int64 wraps around if the difference needs more than 63 bits. A float32 does not.
        far = numbers - constant([float(w) for w in integer_parts])
        near = tf.cast(values - constant(integer_parts, np.int64), tf.float32)
        numbers = tf.where(tf.abs(far) < 2.0**62, near, far)
    for limits in zip(*(column.limits for column in columns)):
        ends = zip(
            *([nearest_float32(end - w) for end in both] for both, w in zip(limits, integer_parts))
        )
        numbers = tf.clip_by_value(numbers, *map(constant, ends))
    rest = [nearest_float32(column.center - w) for column, w in zip(columns, integer_parts)]
    scales = [nearest_float32(column.scale) for column in columns]
    if any(rest):
        numbers -= constant(rest)
    return numbers if set(scales) == {1.0} else numbers / constant(scales)


def _log1p(values: tf.Tensor) -> tf.Tensor:
    """`tf.math.log1p`, whose bits do not depend on the other numbers.

    TensorFlow computes the last numbers of a tensor one by one, in another way than the numbers
    before, so one number has two results. Here, the last numbers are zeros, which are left out.
    """
    zeros = tf.zeros([_AT_ONCE, *values.shape[1:].as_list()], values.dtype)
    result = tf.math.log1p(tf.concat([values, zeros], axis=0))[:-_AT_ONCE]
    result.set_shape(values.shape)
    return result


def _apply(
    steps: Sequence[Any], constant: Callable[[Sequence[float]], Constant], values: tf.Tensor
) -> tf.Tensor:
    """Applies one step of each column."""
    kind = type(steps[0])
    if kind is Log1p:
        return _log1p(values)
    if kind is ZScore:
        means = constant([step.zscore.mean for step in steps])
        return (values - means) / constant([step.zscore.stddev for step in steps])
    if kind is MinMax:
        least = constant([step.minmax.min for step in steps])
        return (values - least) / constant([s.minmax.max - s.minmax.min for s in steps])
    assert kind is Clip, steps
    low, high = ([getattr(s.clip, end) for s in steps] for end in ("min", "max"))
    return tf.clip_by_value(values, constant(low), constant(high))
