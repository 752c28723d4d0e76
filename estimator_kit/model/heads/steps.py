"""Steps of a row: `StepHead` treats each step as a row; `StepScores` has scores of a catalogue.

    StepScores(hidden, lengths, table)     # score of item j after step t: <hidden_t, table_j>

A model returns them from `logits` for the head `next_item`. Training then computes only the scores
that its loss needs: all scores at the steps with a label, or scores of sampled items. Evaluation,
prediction and serving compute the scores of the last step, float32 [rows, items], which are logits
as any other head has them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import tensorflow as tf

from estimator_kit.model.heads.base import Batch, Head
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

    def in_units(self, logits: tf.Tensor) -> tf.Tensor:
        return self.head.in_units(logits)

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
            name: tf.reshape(value, [-1, self.steps, *value.shape[1:].as_list()])
            for name, value in by_step.items()
        }

    def batch_means(
        self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return self.head.batch_means(
            self._step_logits(logits), self._flat(labels), self._step_weights(weights)
        )

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        flat = (self._step_logits(logits), self._flat(labels), self._step_weights(weights))
        return self.head.metrics(Batch(*flat))

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {}

    def _step_logits(self, logits: tf.Tensor) -> tf.Tensor:
        return tf.reshape(logits, [-1, self.head.logits_dimension])

    def _step_weights(self, weights: tf.Tensor) -> tf.Tensor:
        if weights.shape.rank == 1:
            weights = tf.repeat(weights, self.steps)
        return tf.reshape(weights, [-1])

    def _flat(self, labels: tf.Tensor) -> tf.Tensor:
        return tf.reshape(labels, [-1, *labels.shape[2:].as_list()])


class StepScores(NamedTuple):
    """The factors of the scores of all items at each step.

    Attributes:
      hidden: float32 [rows, steps, width], the states after each step, padded at the end of a row.
      lengths: int64 [rows], the number of steps.
      table: float32 [items or more, width], the vectors of the items in the order of their ids: a
        variable in one piece or several, such as `self.embedding_table(column)`, or a tensor. Rows
        after the last item, such as out-of-vocabulary buckets, are not used.
      bias: float32 [items or more], a number for each item, or None.
    """

    hidden: tf.Tensor
    lengths: tf.Tensor
    table: Any
    bias: Optional[tf.Tensor] = None

    def last(self, items: int) -> tf.Tensor:
        """The scores of the last step: float32 [rows, items].

        A row without steps has the state 0, so its scores are the bias, or 0.
        """
        return self.of_all(self._last_states(), items)

    def user_vectors(self) -> tf.Tensor:
        """The states of the last step: float32 [rows, n].

        n is the width, and one more with a bias: then the last number is 1. The product with
        `item_vectors` is a score of `last`.
        """
        states = self._last_states()
        return states if self.bias is None else tf.pad(states, [[0, 0], [0, 1]], constant_values=1)

    def item_vectors(self, ids: tf.Tensor) -> tf.Tensor:
        """The vectors of items: float32 [k, n] from int64 [k]. The last number is the bias."""
        vectors = tf.nn.embedding_lookup(self.table, ids)
        if self.bias is None:
            return vectors
        return tf.concat([vectors, tf.gather(self.bias, ids)[:, tf.newaxis]], axis=1)

    def _last_states(self) -> tf.Tensor:
        at = tf.one_hot(self.lengths - 1, tf.shape(self.hidden)[1])
        return tf.einsum("ns,nsw->nw", at, self.hidden)

    def of_all(self, states: tf.Tensor, items: int) -> tf.Tensor:
        """The scores of all items from states [n, width]: float32 [n, items]."""
        table = tf.convert_to_tensor(self.table)[:items]
        scores = tf.matmul(states, table, transpose_b=True)
        scores = scores if self.bias is None else scores + tf.convert_to_tensor(self.bias)[:items]
        return tf.ensure_shape(scores, [None, items])

    def of_own(self, states: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """The score of one item for each state: float32 [n] from [n, width] and int64 [n]."""
        scores = tf.reduce_sum(states * tf.nn.embedding_lookup(self.table, ids), axis=1)
        return scores if self.bias is None else scores + tf.gather(self.bias, ids)

    def of_some(self, states: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """The scores of the same items for all states: float32 [n, k] from int64 [k]."""
        table = tf.nn.embedding_lookup(self.table, ids)
        scores = tf.matmul(states, table, transpose_b=True)
        return scores if self.bias is None else scores + tf.gather(self.bias, ids)
