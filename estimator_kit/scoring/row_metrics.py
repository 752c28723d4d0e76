"""Metrics of weighted rows, which the gate compares and the bootstrap computes for each sample.

    metric = make("auc", labels, predictions, weights)
    metric.value()             # all rows, once each
    metric.value(counts)       # row i counts[i] times

    auc                    the probability that a positive row has a higher score than a negative
                           row; equal scores count half; exact, by ranks
    log_loss               mean of -log(probability of the label); probabilities are clipped to
                           [1e-7, 1 - 1e-7]
    calibration            sum of the predictions / sum of the labels; the best value is 1
    accuracy               share of the rows whose most probable class is the label
    mean_absolute_error, mean_squared_error

All metrics use the weights of the rows. An undefined metric is NaN: for example without a positive
row, without weight, or with a prediction that is NaN or infinite. This module uses only NumPy.
"""

from __future__ import annotations

import math
from typing import Optional

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST = 1e-7


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
        positive, negative = self._positive, self._negative
        if counts is not None:
            drawn = counts[self._order]
            positive, negative = positive * drawn, negative * drawn
        if not len(positive):
            return math.nan
        positives = np.add.reduceat(positive, self._starts)
        negatives = np.add.reduceat(negative, self._starts)
        pairs = positives.sum() * negatives.sum()
        if pairs <= 0:
            return math.nan
        below = np.cumsum(negatives) - negatives / 2
        return float(positives @ below / pairs)


def make(name: str, labels: NDArray, predictions: NDArray, weights: NDArray):
    """Makes the metric with a name.

    Args:
      name: see the module's docstring.
      labels: [rows].
      predictions: float [rows], or [rows, classes] for `accuracy` and for `log_loss` over classes.
      weights: float [rows]; 0 leaves a row out.
    """
    weights = np.asarray(weights, np.float64)
    predictions = np.asarray(predictions, np.float64)
    if not_finite(predictions):  # NaN would sort above all scores.
        return Mean(np.full(len(weights), np.nan), weights)
    if predictions.ndim == 2:
        chosen = np.asarray(labels, np.int64)
        if name == "accuracy":
            return Mean((predictions.argmax(axis=1) == chosen).astype(np.float64), weights)
        likely = predictions[np.arange(len(chosen)), chosen]
        return Mean(-np.log(np.clip(likely, _LEAST, 1.0)), weights)
    labels = np.asarray(labels, np.float64)
    if name == "auc":
        return Auc(labels, predictions, weights)
    if name == "calibration":
        return Ratio(labels, predictions, weights)
    if name == "log_loss":
        likely = np.clip(predictions, _LEAST, 1 - _LEAST)
        return Mean(-(labels * np.log(likely) + (1 - labels) * np.log(1 - likely)), weights)
    errors = predictions - labels
    if name == "mean_absolute_error":
        return Mean(np.abs(errors), weights)
    if name == "mean_squared_error":
        return Mean(np.square(errors), weights)
    raise KeyError(name)


def not_finite(predictions: NDArray) -> int:
    """The number of rows with a prediction that is NaN or infinite.

    Args:
      predictions: [rows] or [rows, classes].
    """
    finite = np.isfinite(np.asarray(predictions, np.float64))
    return int((~finite.reshape(len(finite), -1).all(axis=1)).sum()) if len(finite) else 0


def badness(name: str, value: float) -> float:
    """A number that is larger if the metric is worse, to compare two models.

    For `calibration` it is the distance from 1 on a logarithmic scale: |log(0.5)| = |log(2)|.
    """
    if name in ("auc", "accuracy"):
        return -value
    if name == "calibration":
        return abs(math.log(value)) if value > 0 else math.nan if math.isnan(value) else math.inf
    return value
