"""The head survival: the time to an event, from one hazard per interval of the time.

The discrete-time model of Gensheimer & Narasimhan, "A scalable discrete-time survival model for
neural networks", PeerJ 7:e6257, 2019.

Harrell's concordance index (Harrell et al., "Evaluating the Yield of Medical Tests", JAMA 247,
1982) is the probability that the row with the earlier event, of two rows, has the higher risk. It
compares all pairs of rows, which cannot be streamed. Here, times are the intervals of the head, so
all pairs follow from the rows and events of each interval by risk (`score_bins`).

- Two rows are a pair if one has its event in an interval that the other one survived. It does not
  count two events in one interval, or a row that was censored before it survived the interval.
- A pair of equal risks counts half.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Optional

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from estimator_kit.model.heads import row_metrics, score_bins
from estimator_kit.model.heads.base import Batch, Head, RowMetrics
from estimator_kit.model.heads.row_metrics import Auc, Floats
from estimator_kit.model.heads.streaming import Metric, also_updating, observe, ratio, streaming_sum
from estimator_kit.tf_estimator import estimator
from feature_specs.spec import FeatureSpec

# Many intervals have fewer bins: the sums of all bins take 16 MiB, or 256 KiB for each interval if
# there are more than 63.
_SUMS = 2**21
_LEAST_BINS = 2**14


def concordance(
    risks: tf.Tensor, survived: tf.Tensor, ended: tf.Tensor, weights: tf.Tensor, intervals: int
) -> Metric:
    """The weighted share of pairs in the right order. NaN without a pair.

    For example, a row has its event in the first interval, and two rows survive it. If the first
    row's risk is above the risk of one of them, 1 of 2 pairs is in order, so the value is 0.5.

    Args:
      risks: float [rows], a score that is larger for a higher risk.
      survived: int32 [rows], the number of intervals that a row survived, 0 to `intervals`.
      ended: float32 [rows], 1 if the event was in the interval after these.
      weights: float32 [rows].
      intervals: how many intervals there are.
    """
    weights = tf.cast(weights, tf.float64)[:, tf.newaxis]
    events = tf.cast(ended, tf.float64)[:, tf.newaxis] * weights
    # The rows by the number of intervals that they survived, and those that had their event then.
    at = tf.one_hot(survived, intervals + 1, dtype=tf.float64)
    width = 2 + 2 * (intervals + 1)
    bins, update = score_bins.streaming_bins(
        risks,
        # First what decides on bins.
        tf.concat([events, weights - events, at * weights, at * events], axis=1),
        "concordance",
        capacity=min(score_bins.CAPACITY, max(_SUMS // width, _LEAST_BINS)),
    )
    rows, events = tf.split(bins.sums[:, 2:], 2, axis=1)
    later = tf.cumsum(rows, axis=1, exclusive=True, reverse=True)
    lower = tf.cumsum(later, axis=0, exclusive=True) + later / 2
    pairs = tf.reduce_sum(events, axis=0) * tf.reduce_sum(later, axis=0)
    return ratio(tf.reduce_sum(events * lower), tf.reduce_sum(pairs)), update


class Watched(NamedTuple):
    """What is known about each row in each interval.

    Attributes:
      survived: float32 [rows, n], 1 in the intervals that the row survived.
      ended: float32 [rows, n], 1 in the interval of the event. All 0 if no event was seen.
    """

    survived: tf.Tensor
    ended: tf.Tensor


class SurvivalHead(Head):
    """The time to an event from n logits. The hazard of interval k is h_k = sigmoid(z_k).

    The hazard is the probability that the event happens in the interval, if it did not happen
    before. A row survives the boundary k with the probability S_k = (1 - h_1) ... (1 - h_k). With
    the logits (0, 0), S = (1/2, 1/4).

    The loss is the negative log-likelihood: the sum of -log(1 - h_k) over the intervals that the
    row survived, and -log h_k for the interval of the event. With the logits (0, 0) and the
    boundaries 10 and 20, an event at 15 costs 2 log 2 = 1.3863. A row that was watched for 12
    without an event costs log 2 = 0.6931, because it survived only the first interval.

    A row with an event survives the intervals that end at or before its time. A row without an
    event survives an interval if it was watched for at least half of it, as in the paper's code. A
    row with an event at or after the last boundary survives all intervals.

    Predictions: survival_probabilities, which are S, and logits, float32 [rows, n]; risk = 1 - S_n,
    the probability of the event before the last boundary, and predictions, the expected time until
    the event or the last boundary, float32 [rows, 1]. The expected time is the area under S, which
    falls linearly inside an interval: for S = (1/2, 1/4) it is 10 (1 + 1/2) / 2 + 10 (1/2 + 1/4) /
    2 = 11.25.
    """

    row_metrics: ClassVar[RowMetrics] = {
        "concordance": lambda labels, logits, weights: Concordance(
            labels[:, 0], labels[:, 1], _risks(logits), weights
        ),
        "log_loss": lambda labels, logits, weights: row_metrics.Mean(
            _row_losses(labels, logits), weights
        ),
    }

    @classmethod
    def judged_labels(cls, entry: Any, labels: NDArray[Any]) -> NDArray[Any]:
        """int64 [rows, 2]: how many intervals a row survived; 1 for an event in the next one."""
        ends = np.array(entry.boundaries, np.float32)
        middles = (np.concatenate([np.zeros(1, np.float32), ends[:-1]]) + ends) / 2
        time, seen = labels[:, :1], labels[:, 1] > 0
        survived = np.where(seen, (time >= ends).sum(axis=1), (time >= middles).sum(axis=1))
        return np.stack([survived, seen & (survived < len(ends))], axis=1).astype(np.int64)

    def __init__(self, spec: FeatureSpec, name: str):
        super().__init__(spec, name)
        self._ends = np.array(self.config.boundaries, np.float32)
        self._starts = np.concatenate([np.zeros(1, np.float32), self._ends[:-1]])

    def watched(self, labels: tf.Tensor) -> Watched:
        """From labels float32 [rows, 2]: the time, and 1 if the event was seen."""
        time, seen = labels[:, :1], labels[:, 1:]
        survived = tf.where(seen > 0, time >= self._ends, time >= (self._starts + self._ends) / 2)
        survived = tf.cast(survived, tf.float32)
        before = tf.concat([tf.ones_like(time), survived[:, :-1]], axis=1)
        return Watched(survived, seen * (before - survived))

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        rows = self.watched(labels)
        # -log(1 - sigmoid(z)) = softplus(z), which is exact for any logit.
        parts = rows.survived * tf.nn.softplus(logits) + rows.ended * tf.nn.softplus(-logits)
        return tf.reduce_sum(parts, axis=1)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        hazards = tf.cumsum(tf.nn.softplus(logits), axis=1)
        survival = tf.exp(-hazards)
        before = tf.concat([tf.ones_like(survival[:, :1]), survival[:, :-1]], axis=1)
        areas = (self._ends - self._starts) * (before + survival) / 2
        return {
            "survival_probabilities": survival,
            # 1 - exp(-h), which would be 0 for a rare event.
            "risk": -tf.math.expm1(-hazards[:, -1:]),
            "predictions": tf.reduce_sum(areas, axis=1, keepdims=True),
            "logits": logits,
        }

    def mean_values(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = self.watched(labels)
        hazards = tf.sigmoid(logits) * (rows.survived + rows.ended)
        return {
            "label_mean": tf.reduce_sum(rows.ended, axis=1),
            "prediction_mean": tf.reduce_sum(hazards, axis=1),
        }

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        means = {"loss": self.row_losses(logits, labels), **self.mean_values(logits, labels)}
        metrics = self._mean_metrics(means, weights)
        label_mean, update = metrics["label_mean"]
        metrics["calibration"] = (ratio(metrics["prediction_mean"][0], label_mean), update)
        rows = self.watched(labels)
        survived, ended = (tf.reduce_sum(part, axis=1) for part in rows)
        metrics["concordance"] = concordance(
            _cumulative_hazard(logits), tf.cast(survived, tf.int32), ended, weights, len(self._ends)
        )
        predicted = self.predictions(logits)["survival_probabilities"]
        parts = (rows.survived + rows.ended, rows.ended, predicted, tf.ones_like(predicted))
        sums = [tf.reduce_sum(part * weights[:, tf.newaxis], axis=0) for part in parts]
        totals, update = streaming_sum(tf.stack(sums), "survival")
        observe(self.name, "survival", totals)
        return also_updating(metrics, update)

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"regress": estimator.export.RegressionOutput(predictions["predictions"])}


def _cumulative_hazard(logits: tf.Tensor) -> tf.Tensor:
    """-log S_n, float64 [rows]. It has the order of the risk 1 - S_n, which rounds to 0 and 1."""
    return tf.reduce_sum(tf.nn.softplus(tf.cast(logits, tf.float64)), axis=1)


# --- Single rows ---------------------------------------------------------------------------------


class Concordance:
    """The share of pairs of rows whose earlier event has the higher risk. Equal risks count half.

    Two rows are a pair if one has its event in an interval that the other one survived. So each
    interval with events has the pairs of an AUC. `concordance` computes the same in an
    evaluation.

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
        sums = [auc.pairs(None if counts is None else counts[i]) for i, auc in self._parts]
        in_order, pairs = (sum(part) for part in zip(*sums)) if sums else (0.0, 0.0)
        return in_order / pairs if pairs > 0 else math.nan


def _risks(logits: Floats) -> Floats:
    """-log of the probability that a row survives all intervals, [rows]."""
    result: Floats = np.logaddexp(0, logits).sum(axis=1)
    return result


def _row_losses(labels: Floats, logits: Floats) -> Floats:
    """The loss of the head, [rows]: the hazard of interval k is 1 / (1 + exp(-z_k))."""
    survived, ended = labels.T
    at = np.arange(logits.shape[1])
    losses = np.where(at < survived[:, np.newaxis], np.logaddexp(0, logits), 0).sum(axis=1)
    of_event = np.minimum(survived.astype(np.int64), logits.shape[1] - 1)[:, np.newaxis]
    event = np.take_along_axis(np.logaddexp(0, -logits), of_event, axis=1)[:, 0]
    result: Floats = losses + np.where(ended > 0, event, 0)
    return result
