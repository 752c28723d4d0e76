"""The ranking objective: the order of the rows of a group, with pairwise and listwise losses."""

from __future__ import annotations

import math
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.heads import list_losses, streaming
from estimator_kit.model.heads.base import Batch, Head
from estimator_kit.model.heads.group_metrics import group_metrics
from estimator_kit.model.heads.list_losses import Lists
from estimator_kit.model.heads.streaming import Metric, also_updating, observe, ratio, streaming_sum
from estimator_kit.tf_estimator import estimator

# The last one has all lists of more than 2 to the 11th rows.
LIST_LENGTHS = 12


class RankingHead(Head):
    """A score from one logit, which sorts the rows of a group.

    A group is the rows with one value of `group_by`. The rows of a group in a batch form a list,
    and the loss is a loss of lists (`list_losses`). The default is the pairwise logistic loss.
    `reduction: mean` is the weighted mean over lists. A row that is alone in its group, or a list
    with equal labels, has no order and does not count. `rows_without_order_share` is the share of
    such rows, as a metric of evaluation and a summary of training. `row_groups` of the input puts
    the rows of a group into one batch.

    Group metrics use all rows of a group in the whole evaluation. The metrics of lists, `loss`,
    `lists` and `rows_without_order_share`, do not depend on the batches of an evaluation if each
    batch has all rows of its groups. A group that is larger than a batch, or in several places of
    the files, is several lists, because only a batch at a time is in memory.

    Predictions: scores, float32 [rows, 1]. A score has no scale. It only orders the rows of a
    group.
    """

    logits_output = "scores"

    def losses_and_weights(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        group: Optional[tf.Tensor] = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        lists, without_order = self._lists(logits, labels, weights, group)
        if not tf.executing_eagerly():  # Eager mode writes no summaries.
            share = tf.math.divide_no_nan(without_order[0], without_order[1])
            tf.compat.v1.summary.scalar(f"rows_without_order_share/{self.name}", share)
        return list_losses.list_losses(self.config.loss, lists)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": logits}

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        lists, without_order = self._lists(logits, labels, weights, batch.group)
        losses, list_weights = list_losses.list_losses(self.config.loss, lists)
        labels = tf.cast(labels, tf.float32)
        sums = tf.concat(
            [
                streaming.sums(tf.cast(losses, tf.float64), tf.cast(list_weights, tf.float64)),
                tf.cast(without_order, tf.float64),
                [tf.reduce_sum(tf.cast(weights, tf.float64))],
                [tf.reduce_sum(tf.cast(weights * labels, tf.float64))],
            ],
            axis=0,
        )
        totals, update = streaming_sum(sums, "lists")
        values = {
            "loss": streaming.reduced(totals[:4], self.config.reduction, divide=ratio),
            "lists": totals[2],
            "rows_without_order_share": ratio(totals[4], totals[5]),
            "weight_sum": totals[6],
            "label_mean": ratio(totals[7], totals[6]),
        }
        metrics: dict[str, Metric] = {name: (value, update) for name, value in values.items()}
        assert batch.group is not None
        if self.chosen:
            metrics.update(
                group_metrics(self.chosen, batch.group, logits[:, 0], labels, weights, grades=True)
            )
        return also_updating(metrics, self._observe(lists, losses, list_weights))

    def _observe(self, lists: Lists, losses: tf.Tensor, weights: tf.Tensor) -> tf.Operation:
        """Offers the weight and the weighted loss of lists of 2, 3-4, 5-8, 9-16, ... rows."""
        rows = tf.reduce_sum(tf.cast(lists.present[:-1], tf.float64), axis=1)
        doublings = tf.math.ceil(tf.math.log(rows) / math.log(2.0) - 1e-9)
        lengths = tf.cast(tf.clip_by_value(doublings, 1, LIST_LENGTHS) - 1, tf.int32)
        batch = [
            tf.math.unsorted_segment_sum(tf.cast(values, tf.float64), lengths, LIST_LENGTHS)
            for values in (weights, weights * losses)
        ]
        totals, update = streaming_sum(tf.stack(batch), "by_list_length")
        observe(self.name, "list_length", totals)
        return update

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"regress": estimator.export.RegressionOutput(predictions["scores"])}

    def _lists(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        group: Optional[tf.Tensor],
    ) -> tuple[Lists, tf.Tensor]:
        """The lists of a batch; and [rows without a list, rows], counting rows with a weight."""
        if group is None:
            raise ValueError(f"objective {self.name!r} ranks groups, but got no group")
        lists = list_losses.make_lists(group, logits[:, 0], tf.cast(labels, tf.float32), weights)
        rows = tf.cast(tf.math.count_nonzero(weights), tf.float32)
        return lists, tf.stack([rows - lists.rows, rows])
