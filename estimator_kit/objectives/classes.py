"""Names of classes, as predictions and the classify signature return them."""

from __future__ import annotations

import tensorflow as tf

from feature_specs.schema import Label


def class_names(label: Label, count: int) -> tf.Tensor:
    """string [count]: the label's vocabulary, or the ids as text when it has none."""
    return tf.constant(label.vocabulary or [str(i) for i in range(count)])
