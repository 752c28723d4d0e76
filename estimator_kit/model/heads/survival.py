"""The objective survival: the time to an event, from one hazard per interval of the time.

The discrete-time model of Gensheimer & Narasimhan, "A scalable discrete-time survival model for
neural networks", PeerJ 7:e6257, 2019. `concordance` has the metric that ranks rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.model.heads import concordance
from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.observed import observe
from estimator_kit.model.heads.streaming import Metric, also_updating, ratio, streaming_sum
from feature_specs.spec import FeatureSpec


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

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        means = {"loss": self.row_losses(logits, labels), **self.mean_values(logits, labels)}
        metrics = self._mean_metrics(means, weights)
        label_mean, update = metrics["label_mean"]
        metrics["calibration"] = (ratio(metrics["prediction_mean"][0], label_mean), update)
        rows = self.watched(labels)
        survived, ended = (tf.reduce_sum(part, axis=1) for part in rows)
        metrics["concordance"] = concordance.concordance(
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
