"""Metrics of weighted rows, which the gate compares and the bootstrap computes for each sample.

    metric = make("auc", "binary", labels, outputs, weights)
    metric.value()             # all rows, once each
    metric.value(counts)       # row i counts[i] times

    auc                    the probability that a positive row has a higher score than a negative
                           row; equal scores count half; exact, by ranks
    log_loss               mean of -log(probability of the label). Of survival times: of the
                           probability that the event is in its interval, or is not in the
                           intervals that the row survived
    calibration            sum of the predictions / sum of the labels; the best value is 1
    accuracy               share of the rows whose most probable class is the label
    concordance            share of the pairs of rows whose earlier event has the higher risk
    mean_absolute_error, mean_squared_error
                           of the most probable class if the predictions are probabilities

An evaluation computes the same metrics (`model.heads`). So where an order or a logarithm
matters, they are computed from logits, because a probability rounds to 0 or 1. `OUTPUTS` says what
each head is measured by.

All metrics use the weights of the rows. An undefined metric is NaN: for example without a positive
row, without weight, or with an output that is NaN or infinite. This module uses no TensorFlow.
"""

from __future__ import annotations

import math
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from feature_specs.sections.retraining import LARGER_IS_BETTER

Floats = NDArray[np.float64]

# The smallest probability of a class: float32 rounds smaller ones to 0.
_LEAST = float(np.finfo(np.float32).tiny)

# The output of a SavedModel that the metrics of a head are computed from.
OUTPUTS = {
    "binary": "logits",
    "logistic_regression": "logits",
    "poisson": "predictions",
    "regression": "predictions",
    "multi_class": "probabilities",
    "ordinal": "probabilities",
    "survival": "logits",
    "ziln": "predictions",
}


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


class Concordance:
    """The share of pairs of rows whose earlier event has the higher risk. Equal risks count half.

    Two rows are a pair if one has its event in an interval that the other one survived. So each
    interval with events has the pairs of an AUC. `model.heads.survival` computes the same
    in an evaluation.

    For example, a row with an event in the first interval has the risk 0.5, and two rows that
    survive it have the risks 0.5 and 0.1. The value is 1.5 / 2 = 0.75.

    Args:
      survived: [rows], the number of intervals that each row survived.
      ended: [rows], 1 if the event was in the interval after these.
      risks, weights: [rows].
    """

    def __init__(self, survived: Floats, ended: Floats, risks: Floats, weights: Floats):
        self._parts = []
        for interval in np.unique(survived[ended > 0]):
            event = (ended > 0) & (survived == interval)
            rows = np.flatnonzero(event | (survived > interval))
            self._parts.append((rows, Auc(event[rows], risks[rows], weights[rows])))

    def value(self, counts: Optional[Floats] = None) -> float:
        found = [auc.pairs(None if counts is None else counts[i]) for i, auc in self._parts]
        in_order, pairs = (sum(part) for part in zip(*found)) if found else (0.0, 0.0)
        return in_order / pairs if pairs > 0 else math.nan


def make(name: str, head: str, labels: NDArray, outputs: NDArray, weights: NDArray):
    """Makes the metric with a name.

    Args:
      name: see the module's docstring.
      head: the head of the objective, which says what the outputs are.
      labels: [rows], or [rows, 2] for the head `survival`: the number of intervals that the row
        survived, and 1 if the event was in the interval after these.
      outputs: float [rows], or [rows, n] with the probabilities of classes, or with the logits of
        intervals. See `OUTPUTS`.
      weights: float [rows]; 0 leaves a row out.
    """
    weights = np.asarray(weights, np.float64)
    outputs = np.asarray(outputs, np.float64)
    if not_finite(outputs):  # NaN would sort above all scores.
        return Mean(np.full(len(weights), np.nan), weights)
    if head == "survival":
        return _of_survival(name, labels, outputs, weights)
    if head in ("multi_class", "ordinal"):
        return _of_classes(name, labels, outputs, weights)
    labels = np.asarray(labels, np.float64)
    if name == "auc":
        return Auc(labels, outputs, weights)
    predictions = outputs
    if head in ("binary", "logistic_regression"):
        if name == "log_loss":  # -y log p - (1 - y) log(1 - p) with p = 1 / (1 + exp(-z)).
            return Mean(np.logaddexp(0, outputs) - labels * outputs, weights)
        predictions = np.exp(-np.logaddexp(0, -outputs))
    if name == "calibration":
        return Ratio(labels, predictions, weights)
    errors = predictions - labels
    if name == "mean_absolute_error":
        return Mean(np.abs(errors), weights)
    if name == "mean_squared_error":
        return Mean(np.square(errors), weights)
    raise KeyError(name)


def _of_survival(name: str, labels: NDArray, logits: Floats, weights: Floats):
    """-log of the probability that the hazard of interval k is 1 / (1 + exp(-z_k))."""
    survived, ended = np.asarray(labels, np.int64).T
    not_ended = np.logaddexp(0, logits)
    if name == "concordance":
        return Concordance(survived, ended, not_ended.sum(axis=1), weights)
    at = np.arange(logits.shape[1])
    losses = np.where(at < survived[:, np.newaxis], not_ended, 0).sum(axis=1)
    of_event = np.minimum(survived, logits.shape[1] - 1)[:, np.newaxis]
    event = np.take_along_axis(np.logaddexp(0, -logits), of_event, axis=1)[:, 0]
    return Mean(losses + np.where(ended > 0, event, 0), weights)


def _of_classes(name: str, labels: NDArray, probabilities: Floats, weights: Floats):
    chosen = np.asarray(labels, np.int64)
    guesses = probabilities.argmax(axis=1)
    if name == "mean_absolute_error":
        return Mean(np.abs(guesses - chosen).astype(np.float64), weights)
    if name == "accuracy":
        return Mean((guesses == chosen).astype(np.float64), weights)
    likely = probabilities[np.arange(len(chosen)), chosen]
    return Mean(-np.log(np.clip(likely, _LEAST, 1.0)), weights)


def not_finite(outputs: NDArray) -> int:
    """The number of rows with an output that is NaN or infinite.

    Args:
      outputs: [rows] or [rows, n].
    """
    finite = np.isfinite(np.asarray(outputs, np.float64))
    return int((~finite.reshape(len(finite), -1).all(axis=1)).sum()) if len(finite) else 0


def badness(name: str, value: float) -> float:
    """A number that is larger if the metric is worse, to compare two models.

    For `calibration` it is the distance from 1 on a logarithmic scale: |log(0.5)| = |log(2)|.
    """
    if name in LARGER_IS_BETTER:
        return -value
    if name == "calibration":
        return abs(math.log(value)) if value > 0 else math.nan if math.isnan(value) else math.inf
    return value
