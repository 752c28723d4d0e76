"""The names of classes in predictions, and the signature `classify`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from feature_specs.label import Label


def class_names(label: Label, count: int) -> tf.Tensor:
    """string [count]: the vocabulary of the label, or the ids as text if it has none."""
    return tf.constant(label.vocabulary or [str(i) for i in range(count)])


def classification(label: Label, probabilities: tf.Tensor) -> Any:
    """The ExportOutput of the signature `classify`: the names and scores of all classes.

    Args:
      label: the label with the classes.
      probabilities: float32 [rows, classes].
    """
    names = class_names(label, int(probabilities.shape[1]))
    rows = tf.shape(probabilities)[0]
    return estimator.export.ClassificationOutput(
        scores=probabilities, classes=tf.tile(names[tf.newaxis], [rows, 1])
    )
