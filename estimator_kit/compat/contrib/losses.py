"""tf.contrib.losses: the losses of tf_slim, and losses of metric learning.

Unlike `tf.losses`, the predictions come before the labels, and the mean is over all elements.
"""

from __future__ import annotations

from typing import Any

from . import _slim

_SLIM = _slim.load("tf_slim.losses")

__all__ = """
absolute_difference add_loss compute_weighted_loss cosine_distance get_losses
get_regularization_losses get_total_loss hinge_loss log_loss mean_pairwise_squared_error
mean_squared_error metric_learning sigmoid_cross_entropy softmax_cross_entropy
sparse_softmax_cross_entropy
""".split()

_METRIC_LEARNING = "tf_slim.losses.metric_learning"

OLD_PATHS = {
    "metric_learning": _METRIC_LEARNING,
    "python.losses": None,
    "python.losses.loss_ops": None,
    "python.metric_learning": _METRIC_LEARNING,
    "python.metric_learning.metric_loss_ops": _METRIC_LEARNING,
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_SLIM, name)
