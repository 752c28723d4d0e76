"""tf.contrib.image: rotations, translations and other projective transforms of images.

A transform is a vector `[a0, a1, a2, b0, b1, b2, c0, c1]`: the pixel (x, y) of the result is the
pixel `((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)` of the input, with `k = c0 x + c1 y + 1`.
Pixels from outside of the input are 0.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

__all__ = [
    "angles_to_projective_transforms",
    "compose_transforms",
    "flat_transforms_to_matrices",
    "matrices_to_flat_transforms",
    "rotate",
    "transform",
    "translate",
    "translations_to_projective_transforms",
]

_OTHER = "TensorFlow no longer has it. Use OpenCV or scipy.ndimage through tf.py_func instead."

REMEDIES = {
    "adjust_hsv_in_yiq": "Use tf.image.adjust_hue and tf.image.adjust_saturation instead.",
    "bipartite_match": "Use scipy.optimize.linear_sum_assignment through tf.py_func instead.",
    "connected_components": "Use scipy.ndimage.label through tf.py_func instead.",
    "dense_image_warp": _OTHER,
    "interpolate_spline": _OTHER,
    "random_hsv_in_yiq": "Use tf.image.random_hue and tf.image.random_saturation instead.",
    "single_image_random_dot_stereograms": _OTHER,
    "sparse_image_warp": _OTHER,
}


def rotate(
    images: Any, angles: Any, interpolation: str = "NEAREST", name: Optional[str] = None
) -> Any:
    """Images rotated counterclockwise about their center.

    Args:
      images: Tensor [batch, height, width, channels], [height, width, channels] or
        [height, width].
      angles: in radians; one, or one for each image.
      interpolation: "NEAREST" or "BILINEAR".
    """
    with tf.name_scope(name, "rotate"):
        images = tf.convert_to_tensor(images)
        height, width = tf.unstack(tf.cast(tf.shape(_batch(images))[1:3], tf.float32))
        transforms = angles_to_projective_transforms(angles, height, width)
        return transform(images, transforms, interpolation)


def translate(
    images: Any, translations: Any, interpolation: str = "NEAREST", name: Optional[str] = None
) -> Any:
    """Images moved by [dx, dy]: one vector, or one for each image."""
    with tf.name_scope(name, "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def transform(
    images: Any,
    transforms: Any,
    interpolation: str = "NEAREST",
    output_shape: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Images after one transform, or one for each image; [height, width] by default unchanged."""
    with tf.name_scope(name, "transform"):
        images = tf.convert_to_tensor(images, name="images")
        batch = _batch(images)
        transforms = _rows(transforms, "transforms")
        if output_shape is None:
            known = batch.shape[1:3]
            output_shape = known.as_list() if known.is_fully_defined() else tf.shape(batch)[1:3]
        result = tf.raw_ops.ImageProjectiveTransformV2(
            images=batch,
            transforms=transforms,
            output_shape=tf.convert_to_tensor(output_shape, tf.int32, name="output_shape"),
            interpolation=interpolation.upper(),
        )
        rank = images.shape.rank
        return result[0, :, :, 0] if rank == 2 else result[0] if rank == 3 else result


def _batch(images: Any) -> Any:
    rank = images.shape.rank
    if rank not in (2, 3, 4):
        raise TypeError(f"images: expected a known rank of 2 to 4, got {rank}")
    return images[None, :, :, None] if rank == 2 else images[None] if rank == 3 else images


def _rows(values: Any, name: str) -> Any:
    """A matrix: a vector is one row."""
    values = tf.convert_to_tensor(values, tf.float32, name=name)
    if values.shape.rank not in (1, 2):
        raise TypeError(f"{name}: expected a known rank of 1 or 2, got {values.shape.rank}")
    return values[None] if values.shape.rank == 1 else values


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: Optional[str] = None
) -> Any:
    """The transforms [n, 8] that rotate by these angles about the center."""
    with tf.name_scope(name, "angles_to_projective_transforms"):
        angles = tf.reshape(tf.convert_to_tensor(angles, tf.float32, name="angles"), [-1])
        cos, sin, zero = tf.cos(angles), tf.sin(angles), tf.zeros_like(angles)
        x, y = image_width - 1.0, image_height - 1.0
        x_offset = (x - (cos * x - sin * y)) / 2.0
        y_offset = (y - (sin * x + cos * y)) / 2.0
        return tf.stack([cos, -sin, x_offset, sin, cos, y_offset, zero, zero], axis=1)


def translations_to_projective_transforms(translations: Any, name: Optional[str] = None) -> Any:
    """The transforms [n, 8] that move by these [dx, dy]."""
    with tf.name_scope(name, "translations_to_projective_transforms"):
        moves = _rows(translations, "translations")
        zero, one = tf.zeros_like(moves[:, 0]), tf.ones_like(moves[:, 0])
        return tf.stack([one, zero, -moves[:, 0], zero, one, -moves[:, 1], zero, zero], axis=1)


def compose_transforms(*transforms: Any) -> Any:
    """One transform for several: the first is applied first."""
    with tf.name_scope("compose_transforms"):
        composed = flat_transforms_to_matrices(transforms[0])
        for each in transforms[1:]:
            composed = tf.matmul(composed, flat_transforms_to_matrices(each))
        return matrices_to_flat_transforms(composed)


def flat_transforms_to_matrices(transforms: Any) -> Any:
    """The matrices [n, 3, 3] of transforms; they map points of the result to the input."""
    with tf.name_scope("flat_transforms_to_matrices"):
        rows = _rows(transforms, "transforms")
        return tf.reshape(tf.concat([rows, tf.ones_like(rows[:, :1])], axis=1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> Any:
    """The transforms [n, 8] of matrices."""
    with tf.name_scope("matrices_to_flat_transforms"):
        flat = tf.reshape(tf.convert_to_tensor(transform_matrices, tf.float32), [-1, 9])
        return (flat / flat[:, 8:9])[:, :8]
