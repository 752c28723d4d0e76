"""The head of an objective with `steps`: the head treats each step as a row."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.streaming import Metric
from feature_specs.spec import FeatureSpec


class StepHead(Head):
    """A head that is applied at each step of a row.

    Logits are float32 [rows, steps * d], with the d logits of a step next to each other. Labels are
    [rows, steps] or [rows, steps, n]. Weights are [rows, steps], or [rows] for all steps of a row.
    Loss and metrics ignore a step with weight 0, such as padding: with `reduction: mean`, the
    losses of two rows with 3 and 1 real steps are divided by 4.

    The predictions of the head have the shape [rows, steps, ...]. They are lists, so the signatures
    classify and regress do not exist.

    Args:
      spec: the feature spec.
      head: the head of one step.
    """

    def __init__(self, spec: FeatureSpec, head: Head):
        super().__init__(spec, head.name)
        self.head = head
        self.steps: int = self.config.steps_in_row
        self.logits_output = head.logits_output

    @property
    def logits_dimension(self) -> int:
        return self.steps * self.head.logits_dimension

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """float32 [rows * steps]."""
        return self.head.row_losses(self._step_logits(logits), self._flat(labels))

    def losses_and_weights(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        group: Optional[tf.Tensor] = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Both are float32 [rows * steps]."""
        return self.row_losses(logits, labels), self._step_weights(weights)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        by_step = self.head.predictions(self._step_logits(logits))
        return {
            name: tf.reshape(value, [-1, self.steps, *value.shape[1:]])
            for name, value in by_step.items()
        }

    def batch_means(
        self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return self.head.batch_means(
            self._step_logits(logits), self._flat(labels), self._step_weights(weights)
        )

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        return self.head.metrics(
            self._step_logits(logits), self._flat(labels), self._step_weights(weights)
        )

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {}

    def _step_logits(self, logits: tf.Tensor) -> tf.Tensor:
        return tf.reshape(logits, [-1, self.head.logits_dimension])

    def _step_weights(self, weights: tf.Tensor) -> tf.Tensor:
        if weights.shape.rank == 1:
            weights = tf.repeat(weights, self.steps)
        return tf.reshape(weights, [-1])

    def _flat(self, labels: tf.Tensor) -> tf.Tensor:
        return tf.reshape(labels, [-1, *labels.shape[2:]])
