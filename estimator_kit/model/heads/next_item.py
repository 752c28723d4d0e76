"""The head `next_item`: the item that follows each step, from scores of a whole catalogue.

Its losses compare the score of the next item with other scores:

    own, others, is_negative = ...                  # float32 [n], float32 [n, k], bool [n, k]
    negatives_loss(loss, own, others, is_negative)  # float32 [n]

`is_negative` is False for a place that does not count: an item is never its own negative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Optional, Union

import tensorflow as tf

from estimator_kit.model.heads import item_metrics, losses, sampled_items, top_items
from estimator_kit.model.heads.base import Batch, Head
from estimator_kit.model.heads.item_metrics import NO_STEP
from estimator_kit.model.heads.steps import StepScores
from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum
from feature_specs.heads.losses import LossEntry
from feature_specs.heads.next_item import Bpr, BprMax, SampledSoftmax
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.labels import NO_ITEM

# Low enough for a weight of exactly 0 in a softmax, and finite, so that its gradient is 0.
_NOT_THERE = -1e9


def step_losses(
    loss: LossEntry,
    scores: StepScores,
    states: tf.Tensor,
    targets: tf.Tensor,
    items: int,
    name: str,
) -> tf.Tensor:
    """The training loss of each step: float32 [n].

    Args:
      loss: the loss of the spec.
      scores: the table and the bias of the items.
      states: float32 [n, width], the states after the steps.
      targets: int64 [n], the next items, in [0, items).
      items: the number of items.
      name: the scope of variables; see `sampled_items.draw`.
    """
    if not isinstance(loss, (SampledSoftmax, Bpr, BprMax)):
        return losses.class_losses(loss, scores.of_all(states, items), targets)
    drawn = sampled_items.draw(loss.options, targets, items, name)
    own = scores.of_own(states, targets)
    others = scores.of_some(states, drawn.ids)
    if isinstance(loss, SampledSoftmax):
        own, others = own - drawn.log_q_targets, others - drawn.log_q
    is_negative = tf.not_equal(targets[:, tf.newaxis], drawn.ids)
    return negatives_loss(loss, own, others, is_negative)


def catalogue_losses(loss: LossEntry, scores: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """The loss with all other items as negatives: float32 [n] from scores [n, items]."""
    if isinstance(loss, SampledSoftmax):
        return losses.softmax_cross_entropy(scores, targets)
    if not isinstance(loss, (Bpr, BprMax)):
        return losses.class_losses(loss, scores, targets)
    own = tf.gather(scores, targets, axis=1, batch_dims=1)
    ids = tf.range(scores.shape[1], dtype=tf.int64)
    return negatives_loss(loss, own, scores, tf.not_equal(targets[:, tf.newaxis], ids))


def negatives_loss(
    loss: LossEntry, own: tf.Tensor, others: tf.Tensor, is_negative: tf.Tensor
) -> tf.Tensor:
    """One of the losses that compare an item with others: float32 [n].

    For the score 1 and one other score 0: `sampled_softmax` and `bpr` are log(1 + exp(-1)) =
    0.3133, and `bpr_max` is 0.3133 too, because 0^2 adds nothing.
    """
    masked = tf.where(is_negative, others, _NOT_THERE * tf.ones_like(others))
    if isinstance(loss, SampledSoftmax):
        together = tf.concat([own[:, tf.newaxis], masked], axis=1)
        return tf.reduce_logsumexp(together, axis=1) - own
    lead = own[:, tf.newaxis] - others
    if isinstance(loss, Bpr):
        count = tf.cast(tf.math.count_nonzero(is_negative, axis=1), tf.float32)
        costs = tf.where(is_negative, tf.nn.softplus(-lead), tf.zeros_like(lead))
        return tf.math.divide_no_nan(tf.reduce_sum(costs, axis=1), count)
    assert isinstance(loss, BprMax)
    log_weights = tf.nn.log_softmax(masked)
    weights = tf.where(is_negative, tf.exp(log_weights), tf.zeros_like(lead))
    # The logarithm of sum_j w_j sigmoid(lead_j), which does not underflow.
    ahead = tf.reduce_logsumexp(
        tf.where(is_negative, log_weights - tf.nn.softplus(-lead), _NOT_THERE * tf.ones_like(lead)),
        1,
    )
    any_negative = tf.reduce_any(is_negative, axis=1)
    ahead = tf.where(any_negative, ahead, tf.zeros_like(ahead))
    squares = tf.reduce_sum(
        weights * tf.where(is_negative, others, tf.zeros_like(others)) ** 2, axis=1
    )
    return loss.options.score_regularization * squares - ahead


class NextItemHead(Head):
    """One score per item of a catalogue, which ranks the items that may follow.

    Labels are int64 [rows, steps]: the id of the next item, NO_ITEM for a step whose next item is
    not in the catalogue, NO_LABEL for a step without a next item, and NO_STEP after the last step.
    Only steps with an id have a loss. In the other metrics, NO_ITEM counts as a miss.

    In training, a model returns `StepScores`, and the loss has a row for each step. In evaluation,
    prediction and serving, logits are the scores of the last step, float32 [rows, items], and the
    loss and the metrics take the last label of a row. A model may also return these logits in
    training. Then it learns only the last step of each row.

    Predictions: scores, float32 [rows, items]. If the model returns `StepScores`: also user_vector,
    float32 [rows, n], whose products with the vectors of `item_vectors` are the scores.
    """

    logits_output = "scores"

    def __init__(self, spec: FeatureSpec, name: str):
        super().__init__(spec, name)
        self._spec = spec
        self.items = spec.named_ids(self.config.items)

    @property
    def logits_dimension(self) -> int:
        return self.items

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The losses of the last step. It is 0 for a row whose last label has no id."""
        targets = item_metrics.last_targets(labels)
        losses = catalogue_losses(self.config.loss, logits, tf.maximum(targets, 0))
        return tf.where(targets >= 0, losses, tf.zeros_like(losses))

    def losses_and_weights(
        self,
        logits: Union[tf.Tensor, StepScores],
        labels: tf.Tensor,
        weights: tf.Tensor,
        group: Optional[tf.Tensor] = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Of each step with an id if the logits are StepScores, otherwise of each last step."""
        if not isinstance(logits, StepScores):
            return self.row_losses(logits, labels), self._known_weights(labels, weights)
        places = tf.where(labels >= 0)
        states = tf.gather_nd(logits.hidden, places)
        states.set_shape([None, logits.hidden.shape[2]])
        targets = tf.gather_nd(labels, places)
        losses = step_losses(
            self.config.loss, logits, states, targets, self.items, f"objectives/{self.name}"
        )
        return losses, tf.gather(weights, places[:, 0])

    def predictions(self, logits: Union[tf.Tensor, StepScores]) -> dict[str, tf.Tensor]:
        if not isinstance(logits, StepScores):
            return {"scores": logits}
        return {"scores": logits.last(self.items), "user_vector": logits.user_vectors()}

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        targets = tf.maximum(item_metrics.last_targets(labels), 0)
        hidden = None
        if self.config.exclude_seen and batch.seen is not None:
            hidden = item_metrics.seen_mask(batch.seen, self.items)
        last = item_metrics.last_targets(labels)
        known_weights = self._known_weights(labels, weights)
        present = tf.where((last >= 0) | tf.equal(last, NO_ITEM), weights, tf.zeros_like(weights))
        rank = item_metrics.ranks(logits, targets, hidden)
        rank = tf.where(last >= 0, rank, tf.constant(math.inf))
        means, spread = {}, {}
        for chosen in self.chosen:
            if chosen.name in item_metrics.METRICS:
                spread[chosen.label] = item_metrics.metric(
                    chosen, logits, present, hidden, batch.seen
                )
            else:
                means[chosen.label] = item_metrics.rank_metric(chosen, rank)
        means["unknown_item_share"] = tf.cast(last < 0, tf.float32)
        rows = tf.cast(tf.stack([*means.values(), tf.ones_like(rank)]), tf.float64)
        sums = tf.reduce_sum(rows * tf.cast(present, tf.float64), axis=1)
        totals, update = streaming_sum(sums, "ranks")
        of_rows = {n: (ratio(totals[i], totals[-1]), update) for i, n in enumerate(means)}
        losses = self._mean_metrics({"loss": self.row_losses(logits, labels)}, known_weights)
        return {**losses, **of_rows, **spread}

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {}

    def more_outputs(
        self, logits: Any, predictions: dict[str, tf.Tensor], features: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The signature `top_k`, and with StepScores `user_vector` and `item_vectors`.

        See `top_items` and `item_vectors`.
        """
        steps = features[self.config.items].to_tensor(NO_STEP)
        ids = tf.where(steps < self.items, steps, NO_STEP * tf.ones_like(steps))
        every = predictions["scores"]
        chosen = top_items.options(tf.shape(every)[0], self.config.exclude_seen)
        seen = item_metrics.seen_mask(ids, self.items)
        best, scores = top_items.top_items(every, seen, chosen, self.config.top_k)
        names = top_items.names_of(self._spec, self.config.items, best)
        top_k_outputs = {"items": names, "scores": scores}
        outputs = {"top_k": top_items.TopKOutput(top_k_outputs, chosen)}
        if isinstance(logits, StepScores):
            outputs["user_vector"] = top_items.user_output(predictions["user_vector"])
            outputs["item_vectors"] = top_items.item_output(self._spec, self.config.items, logits)
        return outputs

    def _known_weights(self, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The weights, with 0 for rows whose last label has no id."""
        return tf.where(item_metrics.last_targets(labels) >= 0, weights, tf.zeros_like(weights))
