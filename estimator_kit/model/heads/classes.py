"""The names of classes in predictions, and in the signatures `classify` and `predict`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.model.heads.base import Head
from feature_specs.label import Label

# The most classes whose words `predict` repeats in each row. More would be most of an answer.
MOST_WORDS = 1000


def class_names(label: Label, count: int) -> tf.Tensor:
    """string [count]: the vocabulary of the label, or the ids as text if it has none."""
    return tf.constant(label.vocabulary or [str(i) for i in range(count)])


def classification(label: Label, probabilities: tf.Tensor) -> Any:
    """The ExportOutput of the signature `classify`: the names and scores of all classes.

    Args:
      label: the label with the classes.
      probabilities: float32 [rows, classes].
    """
    classes = _repeated(label, int(probabilities.shape[1]), probabilities)
    return estimator.export.ClassificationOutput(scores=probabilities, classes=classes)


def words_of_classes(head: Head, predictions: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The names of all classes in the order of `probabilities`: string [rows, n].

    The signature `predict` has them in addition to the predictions, under the name that
    TensorFlow's heads give them: `all_classes`, or `classes` if no class is the predicted one.
    Empty if the head has no classes, or more than `MOST_WORDS`; `classify` has any number.
    """
    count = head.config.classes
    if count is None or count > MOST_WORDS:
        return {}
    name = "all_classes" if "classes" in predictions else "classes"
    return {name: _repeated(head.label, count, predictions["probabilities"])}


def _repeated(label: Label, count: int, probabilities: tf.Tensor) -> tf.Tensor:
    names = class_names(label, count)
    return tf.tile(names[tf.newaxis], [tf.shape(probabilities)[0], 1])
