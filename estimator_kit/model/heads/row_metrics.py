"""Metrics of weighted rows in NumPy, which the gate compares and the bootstrap computes again.

    metric = row_metric("auc", "binary", labels, outputs, weights)    # of `model.heads`
    metric.value()             # all rows, once each
    metric.value(counts)       # row i counts[i] times

An evaluation computes the same metrics. The outputs are `HeadEntry.answer` of an export. All
metrics use the weights of the rows. An undefined metric is NaN: for example without a positive row,
without weight, or with an output that is NaN or infinite. This module uses no TensorFlow.
"""

from __future__ import annotations

import math
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from feature_specs.heads import METRICS

Floats = NDArray[np.float64]

# The smallest probability of a class: float32 rounds smaller ones to 0.
_LEAST = float(np.finfo(np.float32).tiny)


class RowMetric(Protocol):
    """A metric of some rows."""

    def value(self, counts: Optional[Floats] = None) -> float:
        """The metric, with row i counts[i] times; by default each row once."""


class Mean:
    """A weighted mean of one number for each row, float64 [rows]."""

    def __init__(self, numbers: Floats, weights: Floats):
        self._products, self._weights = numbers * weights, weights

    def value(self, counts: Optional[Floats] = None) -> float:
        if counts is None:
            total, weight = self._products.sum(), self._weights.sum()
        else:
            total, weight = self._products @ counts, self._weights @ counts
        return float(total / weight) if weight > 0 else math.nan


class Ratio:
    """The weighted sum of predictions divided by the weighted sum of labels."""

    def __init__(self, labels: Floats, predictions: Floats, weights: Floats):
        self._labels, self._predictions = labels * weights, predictions * weights

    def value(self, counts: Optional[Floats] = None) -> float:
        if counts is None:
            above, below = self._predictions.sum(), self._labels.sum()
        else:
            above, below = self._predictions @ counts, self._labels @ counts
        return float(above / below) if below > 0 else math.nan


class Auc:
    """The area under the ROC curve. Rows are sorted once, and each value takes one pass.

    For example, the labels [0, 0, 1, 1] have the scores [0.1, 0.4, 0.4, 0.8]. Of 4 pairs, 3 are in
    order and one is equal, so the value is 3.5 / 4 = 0.875.
    """

    def __init__(self, labels: Floats, predictions: Floats, weights: Floats):
        self._order = np.argsort(predictions, kind="stable")
        ranked = predictions[self._order]
        # Where each run of equal scores begins.
        self._starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
        positive = (labels[self._order] > 0.5).astype(np.float64)
        self._positive = positive * weights[self._order]
        self._negative = (1 - positive) * weights[self._order]

    def value(self, counts: Optional[Floats] = None) -> float:
        in_order, pairs = self.pairs(counts)
        return in_order / pairs if pairs > 0 else math.nan

    def pairs(self, counts: Optional[Floats] = None) -> tuple[float, float]:
        """The weight of the pairs in order, and of all pairs."""
        positive, negative = self._positive, self._negative
        if counts is not None:
            drawn = counts[self._order]
            positive, negative = positive * drawn, negative * drawn
        if not len(positive):
            return 0.0, 0.0
        positives = np.add.reduceat(positive, self._starts)
        negatives = np.add.reduceat(negative, self._starts)
        below = np.cumsum(negatives) - negatives / 2
        return float(positives @ below), float(positives.sum() * negatives.sum())


def _probabilities(logits: Floats) -> Floats:
    """1 / (1 + exp(-z))."""
    return np.exp(-np.logaddexp(0, -logits))


def calibration_of_logits(labels: Floats, logits: Floats, weights: Floats) -> Ratio:
    """sum(w p) / sum(w y), with p = 1 / (1 + exp(-z))."""
    return Ratio(labels, _probabilities(logits), weights)


def squared_error_of_logits(labels: Floats, logits: Floats, weights: Floats) -> Mean:
    """The mean of (p - y)^2, with p = 1 / (1 + exp(-z))."""
    return squared_error(labels, _probabilities(logits), weights)


def log_loss(labels: Floats, logits: Floats, weights: Floats) -> Mean:
    """-y log p - (1 - y) log(1 - p), with p = 1 / (1 + exp(-z))."""
    return Mean(np.logaddexp(0, logits) - labels * logits, weights)


def absolute_error(labels: Floats, predictions: Floats, weights: Floats) -> Mean:
    """The mean of |p - y|."""
    return Mean(np.abs(predictions - labels), weights)


def squared_error(labels: Floats, predictions: Floats, weights: Floats) -> Mean:
    """The mean of (p - y)^2."""
    return Mean(np.square(predictions - labels), weights)


def accuracy(labels: Floats, shares: Floats, weights: Floats) -> Mean:
    """The share of rows whose most probable class is the label. Shares are [rows, n]."""
    return Mean((shares.argmax(axis=1) == labels).astype(np.float64), weights)


def class_distance(labels: Floats, shares: Floats, weights: Floats) -> Mean:
    """The mean of |class - y| for the most probable class. Shares are [rows, n]."""
    return absolute_error(labels, shares.argmax(axis=1).astype(np.float64), weights)


def class_log_loss(labels: Floats, shares: Floats, weights: Floats) -> Mean:
    """The mean of -log(share of the label). Shares are [rows, n]."""
    likely = shares[np.arange(len(labels)), labels.astype(np.int64)]
    return Mean(-np.log(np.clip(likely, _LEAST, 1.0)), weights)


def not_finite(outputs: NDArray[Any]) -> int:
    """The number of rows with an output that is NaN or infinite.

    Args:
      outputs: [rows] or [rows, n].
    """
    finite = np.isfinite(np.asarray(outputs, np.float64))
    return int((~finite.reshape(len(finite), -1).all(axis=1)).sum()) if len(finite) else 0


def badness(name: str, value: float) -> float:
    """A number that is larger if the metric is worse, to compare two models.

    If the best value is 1, it is the distance from 1 on a logarithmic scale: |log(0.5)| =
    |log(2)|.
    """
    better = METRICS[name].better
    if better == "max":
        return -value
    if better == "one":
        return abs(math.log(value)) if value > 0 else math.nan if math.isnan(value) else math.inf
    return value
