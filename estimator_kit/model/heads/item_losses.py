"""The losses of the head `next_item`: the score of the next item against other scores.

    own, others, there = ...                  # float32 [n], float32 [n, k], bool [n, k]
    negatives_loss(loss, own, others, there)  # float32 [n]

`there` is False for a place that does not count: an item is never its own negative.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.heads import losses, sampled_items
from estimator_kit.model.heads.step_scores import StepScores
from feature_specs.heads.losses import Bpr, BprMax, Loss, SampledSoftmax, options_of

# Low enough for a weight of exactly 0 in a softmax, and finite, so that its gradient is 0.
_NOT_THERE = -1e9


def step_losses(
    loss: Loss, scores: StepScores, states: tf.Tensor, targets: tf.Tensor, items: int, name: str
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
    drawn = sampled_items.draw(options_of(loss), targets, items, name)
    own = scores.of_own(states, targets)
    others = scores.of_some(states, drawn.ids)
    if isinstance(loss, SampledSoftmax):
        own, others = own - drawn.log_q_targets, others - drawn.log_q
    there = tf.not_equal(targets[:, tf.newaxis], drawn.ids)
    return negatives_loss(loss, own, others, there)


def catalogue_losses(loss: Loss, scores: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """The loss with all other items as negatives: float32 [n] from scores [n, items]."""
    if isinstance(loss, SampledSoftmax):
        return losses.softmax_cross_entropy(scores, targets)
    if not isinstance(loss, (Bpr, BprMax)):
        return losses.class_losses(loss, scores, targets)
    own = tf.gather(scores, targets, axis=1, batch_dims=1)
    ids = tf.range(scores.shape[1], dtype=tf.int64)
    return negatives_loss(loss, own, scores, tf.not_equal(targets[:, tf.newaxis], ids))


def negatives_loss(loss: Loss, own: tf.Tensor, others: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """One of the losses that compare an item with others: float32 [n].

    For the score 1 and one other score 0: `sampled_softmax` and `bpr` are log(1 + exp(-1)) =
    0.3133, and `bpr_max` is 0.3133 too, because 0^2 adds nothing.
    """
    masked = tf.where(there, others, _NOT_THERE * tf.ones_like(others))
    if isinstance(loss, SampledSoftmax):
        together = tf.concat([own[:, tf.newaxis], masked], axis=1)
        return tf.reduce_logsumexp(together, axis=1) - own
    lead = own[:, tf.newaxis] - others
    if isinstance(loss, Bpr):
        count = tf.cast(tf.math.count_nonzero(there, axis=1), tf.float32)
        costs = tf.where(there, tf.nn.softplus(-lead), tf.zeros_like(lead))
        return tf.math.divide_no_nan(tf.reduce_sum(costs, axis=1), count)
    assert isinstance(loss, BprMax)
    log_weights = tf.nn.log_softmax(masked)
    weights = tf.where(there, tf.exp(log_weights), tf.zeros_like(lead))
    # The logarithm of sum_j w_j sigmoid(lead_j), which does not underflow.
    ahead = tf.reduce_logsumexp(
        tf.where(there, log_weights - tf.nn.softplus(-lead), _NOT_THERE * tf.ones_like(lead)), 1
    )
    any_there = tf.reduce_any(there, axis=1)
    ahead = tf.where(any_there, ahead, tf.zeros_like(ahead))
    squares = tf.reduce_sum(weights * tf.where(there, others, tf.zeros_like(others)) ** 2, axis=1)
    return options_of(loss).score_regularization * squares - ahead
