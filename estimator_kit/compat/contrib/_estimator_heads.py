"""The heads of tf.contrib.estimator with one kind of label, from tensorflow-estimator.

Their default reduction of losses is the mean over the batch, as in TensorFlow 1.15.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.canned import head as _head

_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _MEAN,
    loss_fn: Optional[Callable[..., Any]] = None,
    name: Optional[str] = None,
) -> Any:
    """A head with a sigmoid for one class."""
    return _head._binary_logistic_head_with_sigmoid_cross_entropy_loss(
        weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
    )


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _MEAN,
    loss_fn: Optional[Callable[..., Any]] = None,
    name: Optional[str] = None,
) -> Any:
    """A head with a softmax over more than two classes."""
    return _head._multi_class_head_with_softmax_cross_entropy_loss(
        n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name
    )


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    loss_fn: Optional[Callable[..., Any]] = None,
    inverse_link_fn: Optional[Callable[..., Any]] = None,
    name: Optional[str] = None,
) -> Any:
    """A head with the squared error, or with another loss."""
    return _head._regression_head(
        weight_column, label_dimension, loss_reduction, loss_fn, inverse_link_fn, name
    )


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    compute_full_loss: bool = True,
    name: Optional[str] = None,
) -> Any:
    """A head for counts: exp(logits) is the mean of a Poisson distribution."""

    def loss(labels: Any, logits: Any) -> Any:
        return tf.nn.log_poisson_loss(labels, logits, compute_full_loss)

    return regression_head(weight_column, label_dimension, loss_reduction, loss, tf.exp, name)


def logistic_regression_head(
    weight_column: Any = None, loss_reduction: str = _MEAN, name: Optional[str] = None
) -> Any:
    """A head for labels between 0 and 1: sigmoid(logits) is the prediction."""

    def loss(labels: Any, logits: Any) -> Any:
        labels = _head._assert_range(labels, 2, message="Labels must be in range [0, 1]")
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    return regression_head(weight_column, 1, loss_reduction, loss, tf.sigmoid, name)
