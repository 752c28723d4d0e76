"""Features with `decode` in the kit's fast reader: checks the bytes and converts them to float32.

`feature_specs.reference.ops` has the ops. This module adds the checks before them, which name
the feature, and `reason`, which tells `diagnosis` what is wrong with one value. It never changes or
drops a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.feature import Feature, Image, Raw
from feature_specs.reference import ops
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks

# The first two bytes of each image format.
_FORMATS = {b"\xff\xd8": "JPEG", b"\x89P": "PNG", b"GI": "GIF", b"BM": "BMP"}

# The numbers of channels to which TensorFlow can convert an image of each format.
_CHANNELS = {"JPEG": (1, 3), "PNG": (1, 3, 4), "GIF": (3,), "BMP": (3, 4)}

_SHOWN = 8


def decoded(spec: FeatureSpec, parsed: Mapping[str, Any]) -> dict[str, Any]:
    """The parsed features of a batch; features with `decode` become float32 [rows, *shape].

    Raises (in the graph):
      tf.errors.InvalidArgumentError: a value has another number of bytes than declared, or is not
        an image. TensorFlow raises its own error if an image is damaged after its first bytes.
    """
    result = dict(parsed)
    for name, feature in spec.features.items():
        if feature.decode is not None and name in parsed:
            check = checks.bytes_of_numbers if isinstance(feature.decode, Raw) else _check_image
            stored = check(name, feature, parsed[name])
            result[name] = ops.decoded(name, feature, stored)
    return result


def _check_image(name: str, feature: Feature, stored: tf.Tensor) -> tf.Tensor:
    return checks.images(name, feature, stored, tuple(_FORMATS))


def reason(what: str, feature: Feature, value: bytes) -> Optional[str]:
    """What is wrong with one value of a feature with `decode`, or None.

    Args:
      what: the subject of the sentence, such as "feature 'photo'".
      feature: the feature's entry in the spec.
      value: the bytes in the record.
    """
    entry = feature.decode
    assert entry is not None
    if not value:
        if feature.default is not None:
            return None
        return f"{what} is empty; say default: zeros in the spec if that means missing"
    if isinstance(entry, Raw):
        return _raw_reason(what, entry, value)
    return _image_reason(what, feature, entry, value)


def _raw_reason(what: str, entry: Raw, value: bytes) -> Optional[str]:
    if len(value) != entry.stored_bytes:
        shape = " x ".join(map(str, entry.shape)) or "1"
        return (
            f"{what} has {len(value)} bytes, expected {entry.stored_bytes}: {shape} of "
            f"{entry.raw.dtype}"
        )
    dtype = np.dtype(entry.raw.dtype).newbyteorder("<" if entry.raw.little_endian else ">")
    numbers = np.frombuffer(value, dtype)
    with np.errstate(over="ignore"):  # A large float64 becomes infinite.
        single = numbers.astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(single))
    if wrong.size:
        first = int(wrong[0])
        return f"{what} has {numbers[first]} at [{first}], expected finite float32 numbers"
    return None


def _image_reason(what: str, feature: Feature, entry: Image, value: bytes) -> Optional[str]:
    kind = _FORMATS.get(value[:2])
    if kind is None:
        return (
            f"{what} is not a JPEG, PNG, GIF or BMP image: it begins with {value[:_SHOWN]!r} and "
            f"has {len(value)} bytes"
        )
    wanted = entry.image.channels
    if wanted not in _CHANNELS[kind]:
        can = " or ".join(map(str, _CHANNELS[kind]))
        return f"{what} is a {kind} image, which gives {can} channels, but the spec says {wanted}"
    try:
        pixels = tf.io.decode_image(value)
    except tf.errors.InvalidArgumentError:
        return (
            f"{what} is a {kind} image that cannot be decoded: its {len(value)} bytes are cut off "
            "or damaged"
        )
    if kind == "GIF" and pixels.shape[0] != 1:
        return f"{what} is a GIF of {pixels.shape[0]} frames, expected one image; store one frame"
    try:
        ops.decoded("image", feature, tf.constant([value]))
    except tf.errors.InvalidArgumentError:
        return f"{what} is a {kind} image that cannot be converted to {wanted} channels"
    return None
