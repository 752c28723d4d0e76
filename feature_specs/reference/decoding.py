"""The ops of `decode`: from the bytes of a parsed feature to float32, for both readings of a spec.

    parsed = tf.io.parse_example(serialized, make_parse_example_spec(spec))
    features = decode_features(spec, parsed)     # the input of the columns of `feature_columns`

The ops decode a batch at once and do not check the bytes first: TensorFlow raises an error for
bytes that do not fit. The kit's own reading checks them before
(`input_pipelines.transform.transforms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from feature_specs.encoded_bytes import Image, Raw
from feature_specs.feature import Feature
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
        found = [read(content) for content in stored]
        pixels = tf.stack(found) if found else tf.zeros([0, *entry.shape])
    else:
        pixels = tf.map_fn(read, stored, fn_output_signature=tf.TensorSpec(entry.shape, tf.float32))
    return pixels / 255.0 if entry.image.scale else pixels
