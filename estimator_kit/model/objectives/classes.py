"""Names of classes, as predictions and the classify signature return them, and that signature."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from feature_specs.label import Label


def class_names(label: Label, count: int) -> tf.Tensor:
    """string [count]: the label's vocabulary, or the ids as text when it has none."""
    return tf.constant(label.vocabulary or [str(i) for i in range(count)])


def classification(label: Label, probabilities: tf.Tensor) -> Any:
    """The ExportOutput of the signature `classify`: names and scores of all classes in each row.

    Args:
      label: whose classes they are.
      probabilities: float32 [rows, classes].
    """
    names = class_names(label, int(probabilities.shape[1]))
    rows = tf.shape(probabilities)[0]
    return estimator.export.ClassificationOutput(
        scores=probabilities, classes=tf.tile(names[tf.newaxis], [rows, 1])
    )
