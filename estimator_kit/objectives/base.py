"""What an objective is: the part of a model that turns logits into a loss, metrics, predictions.

An objective (a head, in tf.estimator's words) is made from an entry of the spec's `objectives`.
It holds no variables besides its metrics' sums, so it has nothing in a checkpoint.
"""

from __future__ import annotations

import abc
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.objectives.streaming import Metric, ratio, streaming_sum
from feature_specs.schema import FeatureSpec


class Objective(abc.ABC):
    """One objective of a model.

    Args:
      spec: the feature spec.
      name: its entry under `objectives`.

    Override `row_losses`, `predictions`, `metrics` and `export_outputs`.
    """

    def __init__(self, spec: FeatureSpec, name: str):
        self.name = name
        self.label_name = spec.label_of(name)
        self.label = spec.labels[self.label_name]
        self.config = spec.objectives[name]

    @property
    def logits_dimension(self) -> int:
        return self.config.logits_dimension

    @abc.abstractmethod
    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """float32 [rows] from logits float32 [rows, logits_dimension] and labels [rows]."""

    @abc.abstractmethod
    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """What prediction and serving return, by the names that canned estimators use."""

    @abc.abstractmethod
    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor],
    ) -> dict[str, Metric]:
        """Streaming metrics by name, without the objective's own name.

        Args:
          logits: float32 [rows, logits_dimension].
          labels: [rows].
          weights: float32 [rows].
          true_probability: float32 [rows] where the data know it.
        """

    @abc.abstractmethod
    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        """Signatures beside `predict`: `{"classify" or "regress": ExportOutput}`."""

    def loss(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The mean of the row losses by weight: sum(weight * loss) / sum(weight).

        Dividing by the weights and not by the rows keeps the size of the loss, and so of the
        gradients, the same however many rows are masked. It is 0 for a batch without weight.
        Losses 1 and 3 with weights 1 and 0.5: (1 + 1.5) / 1.5 = 1.667.
        """
        losses = self.row_losses(logits, labels)
        return tf.math.divide_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))

    def _mean_metrics(self, values: dict[str, tf.Tensor], weights: tf.Tensor) -> dict[str, Metric]:
        """Means by weight of some float32 [rows], in one streaming sum."""
        rows = tf.stack([tf.ones_like(weights), *values.values()], axis=1)
        sums = tf.reduce_sum(tf.cast(rows * weights[:, tf.newaxis], tf.float64), axis=0)
        totals, update = streaming_sum(sums, "means")
        weight_sum, *parts = tf.unstack(totals)
        metrics = {name: (ratio(part, weight_sum), update) for name, part in zip(values, parts)}
        return {**metrics, "weight_sum": (weight_sum, update)}
