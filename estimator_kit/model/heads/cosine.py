"""The cosine objective: the direction of a vector, from n logits."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.heads import losses
from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.observed import observe
from estimator_kit.model.heads.streaming import Metric, also_updating, streaming_sum


class CosineHead(Head):
    """n logits that learn the direction of the label, float32 [rows, n].

    The loss is 1 - cosine. See `losses.cosine`. The lengths of logits and label have no effect. A
    label of zeros has no direction and always costs 1.

    Predictions: logits, and predictions, which are the logits scaled to length 1. float32 [rows,
    n].
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return losses.cosine(logits, labels)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": tf.math.l2_normalize(logits, axis=1), "logits": logits}

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        similarity = losses.cosine_similarity(logits, labels)
        metrics = self._mean_metrics(
            {"loss": self.row_losses(logits, labels), "cosine_similarity": similarity}, weights
        )
        bins = tf.cast(tf.clip_by_value((similarity + 1) * 20, 0, 39), tf.int32)
        totals, update = streaming_sum(
            tf.math.unsorted_segment_sum(weights, bins, 40), "similarities"
        )
        observe(self.name, "similarity", totals)
        return also_updating(metrics, update)

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {}
