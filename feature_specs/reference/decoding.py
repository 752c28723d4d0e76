"""The ops of `decode`: bytes of a parsed feature to float32, for both readings of a spec.

    parsed = tf.io.parse_example(serialized, make_parse_example_spec(spec))
    features = decode_features(spec, parsed)     # what the columns of `feature_columns` take

Many rows at once. Checks nothing by itself: bytes that do not fit are an error of TensorFlow's; the
kit's own reading looks at them before (`input_pipelines.transform.decoding`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from feature_specs.encoded_bytes import Image, Raw
from feature_specs.feature import Feature
from feature_specs.spec import FeatureSpec


def decode_features(spec: FeatureSpec, parsed: Mapping[str, Any]) -> dict[str, Any]:
    """The parsed features of a batch, those with `decode` as float32 [rows, *shape].

    The others are as they were. For a `tf.feature_column` of such a feature, which cannot decode.

    Args:
      spec: the feature spec.
      parsed: what `tf.io.parse_example` makes of `make_parse_example_spec`, or of the context of
        a SequenceExample.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: bytes are no image, or of another number than declared.
    """
    return {
        name: decoded(name, spec.features[name], value)
        if name in spec.features and spec.features[name].decode is not None
        else value
        for name, value in parsed.items()
    }


def decoded(name: str, feature: Feature, stored: tf.Tensor) -> tf.Tensor:
    """Strings [rows] as float32 [rows, *shape]; with `default: zeros` an empty one is zeros."""
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
    # Without it, rows that are all twice as long would be twice as many. A batch of no row has no
    # length, and may pass.
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
        # A GIF is [frames, height, width, 3], the others have no frames. Which one it is, only the
        # bytes tell; so TensorFlow knows no rank here.
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
    if tf.executing_eagerly():  # A diagnosis. There map_fn leaves a complaint behind each failure.
        found = [read(content) for content in stored]
        pixels = tf.stack(found) if found else tf.zeros([0, *entry.shape])
    else:
        pixels = tf.map_fn(read, stored, fn_output_signature=tf.TensorSpec(entry.shape, tf.float32))
    return pixels / 255.0 if entry.image.scale else pixels
