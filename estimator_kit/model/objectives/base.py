"""What an objective is: the part of a model that turns logits into a loss, metrics, predictions.

An objective (a head, in tf.estimator's words) is made from an entry of the spec's `objectives`.
It holds no variables besides its metrics' sums, so it has nothing in a checkpoint.
"""

from __future__ import annotations

import abc
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.objectives import reductions
from estimator_kit.model.objectives.streaming import Metric, ratio, streaming_sum
from feature_specs.heads.metric_choices import MetricChoice
from feature_specs.spec import FeatureSpec


class Objective(abc.ABC):
    """One objective of a model.

    Args:
      spec: the feature spec.
      name: its entry under `objectives`.

    Override `row_losses` (penalties included), `predictions`, `metrics` and `export_outputs`; where
    the loss is none of single rows, `losses_and_weights` in the place of `row_losses`.

    Attributes:
      logits_output: which of the predictions is the logits. So what an export answers says what the
        loss and the metrics are.
    """

    logits_output: str = "logits"

    def __init__(self, spec: FeatureSpec, name: str):
        self.name = name
        self.label_name = spec.label_of(name)
        self.label = spec.labels[self.label_name]
        # Of the class that its head has in the spec.
        self.config: Any = spec.objectives[name]
        self.chosen: tuple[MetricChoice, ...] = self.config.metric_choices()

    @property
    def logits_dimension(self) -> int:
        return int(self.config.logits_dimension)

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """float32 [rows] from logits float32 [rows, logits_dimension] and labels [rows].

        Labels of heads with several values are float32 [rows, n].
        """
        raise NotImplementedError(f"the loss of {type(self).__name__} is none of single rows")

    @abc.abstractmethod
    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """What prediction and serving return, by the names that canned estimators use."""

    @abc.abstractmethod
    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        """Streaming metrics by name, without the objective's own name.

        Those that the head always has, and those of `metrics` in the spec (`self.chosen`).

        Args:
          logits: float32 [rows, logits_dimension].
          labels: [rows], or float32 [rows, n] where a label is a vector or several classes.
          weights: float32 [rows]; 0 masks the row.
          true_probability: float32 [rows] where the data know it.
          group: int64 [rows], a hash of each row's group, -1 for none; with `group_by` in the spec.
        """

    @abc.abstractmethod
    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        """Signatures beside `predict`: `{"classify" or "regress": ExportOutput}`.

        Empty for a head whose predictions fit neither.
        """

    def losses_and_weights(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        group: Optional[tf.Tensor] = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """What the loss reduces: float32 [n] and [n], by default those of the rows.

        Arguments are those of `metrics`.
        """
        return self.row_losses(logits, labels), weights

    def loss(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        group: Optional[tf.Tensor] = None,
    ) -> tf.Tensor:
        """The loss of a batch, by the `reduction` of the spec (see `reductions.reduced`).

        It is 0 for a batch without weight. Arguments are those of `metrics`.
        """
        parts = reductions.sums(*self.losses_and_weights(logits, labels, weights, group))
        return reductions.reduced(parts, self.config.reduction, divide=tf.math.divide_no_nan)

    def chooses(self, name: str) -> bool:
        """Whether the spec asks for a metric."""
        return any(chosen.name == name for chosen in self.chosen)

    def _mean_metrics(self, values: dict[str, tf.Tensor], weights: tf.Tensor) -> dict[str, Metric]:
        """Means by weight of some float32 [rows], in one streaming sum.

        `loss` must be among them; it is reduced as in training. The sum of the weights is added.
        """
        weights = tf.cast(weights, tf.float64)
        losses = tf.cast(values["loss"], tf.float64)
        others = {name: value for name, value in values.items() if name != "loss"}
        sums = [reductions.sums(losses, weights)]
        if others:
            rows = tf.cast(tf.stack(list(others.values()), axis=1), tf.float64)
            sums.append(tf.reduce_sum(rows * weights[:, tf.newaxis], axis=0))
        totals, update = streaming_sum(tf.concat(sums, axis=0), "means")
        loss = reductions.reduced(totals[:4], self.config.reduction, divide=ratio)
        metrics = {"loss": (loss, update)}
        for i, name in enumerate(others):
            metrics[name] = (ratio(totals[4 + i], totals[1]), update)
        return {**metrics, "weight_sum": (totals[1], update)}
