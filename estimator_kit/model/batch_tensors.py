"""Tensors of a training batch that a hook reads by name, to show them in TensorBoard.

The tensors never run unless a hook asks for them, so a step without a summary costs nothing. They
are made last, because the random ops of a graph depend on the ops before them.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from estimator_kit.model.objectives import Objective
from feature_specs.encoded_bytes import Image
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features

# `<scope>/prediction_mean/<objective>`: float32, the weighted mean of a batch.
MEANS_SCOPE = "estimator_kit/means"
# `<scope>/<column>`: float32 [up to IMAGES, height, width, channels].
IMAGES_SCOPE = "estimator_kit/images"

IMAGES = 3


def name_means(
    objectives: Mapping[str, Objective],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> None:
    """Names the mean prediction and the mean label of each objective that has them."""
    for name, objective in objectives.items():
        with tf.name_scope(f"objectives/{name}/means"):
            means = objective.batch_means(logits[name], labels[objective.label_name], weights[name])
        for key, value in means.items():
            tf.identity(value, name=f"{MEANS_SCOPE}/{key}/{name}")


def name_images(spec: FeatureSpec, features: Features) -> None:
    """Names the first images of each column that reads a feature with `decode: image`."""
    for name, column in spec.columns.items():
        if name not in features or not column.is_numbers(spec):
            continue
        decode = spec.features[next(spec.features_of(name))].decode
        if isinstance(decode, Image):
            images = tf.reshape(features[name][:IMAGES], [-1, *decode.shape])
            tf.identity(images, name=f"{IMAGES_SCOPE}/{name}")
