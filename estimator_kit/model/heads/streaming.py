"""Streaming sums, the only state of the kit's metrics, and the reduction of losses.

Every metric is a function of sums over rows, so its value does not depend on the batches. The sums
are float64, because a float32 sum stops growing at 16 million. With a distribution strategy, each
replica adds its own rows, and reading a sum adds up the replicas.

The loss of a batch and the metric `loss` use the same four sums. An evaluation streams them over
its batches, so `loss` is the reduction of all rows as if they were one batch.

For the curves of the report page, a head calls `observe` in its `metrics` with sums, such as the
weights of positives and negatives by logit. A session hook takes all of them out of the graph with
`take` and reads them when the evaluation ends (`training.hooks.curves`). Nothing here adds an op to
the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

# A metric in the form of `EstimatorSpec.eval_metric_ops`: value and update op.
Metric = tuple[tf.Tensor, tf.Operation]


def streaming_sum(values: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
    """The float64 sum of a tensor over all batches so far, and the op that adds this batch.

    Args:
      values: a number or an array of fixed shape. It is summed elementwise over batches.
      name: the name of the variable with the sum.

    Returns:
      (total, update), both float64 in the shape of `values`.
    """
    total = tf.compat.v1.Variable(
        lambda: tf.zeros(values.shape, tf.float64),
        trainable=False,
        collections=[
            tf.compat.v1.GraphKeys.LOCAL_VARIABLES,
            tf.compat.v1.GraphKeys.METRIC_VARIABLES,
        ],
        validate_shape=True,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
        use_resource=True,
        name=name,
    )
    update = total.assign_add(tf.cast(values, tf.float64), read_value=True)
    return total.read_value(), update


def also_updating(metrics: dict[str, Metric], update: tf.Operation) -> dict[str, Metric]:
    """The same metrics; updating `loss`, which every objective has, makes another update, too."""
    value, own = metrics["loss"]
    return {**metrics, "loss": (value, tf.group(own, update))}


def ratio(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    """numerator / denominator, or NaN if the denominator is 0."""
    nan = tf.constant(float("nan"), numerator.dtype)
    return tf.where(tf.equal(denominator, 0), nan, tf.math.divide_no_nan(numerator, denominator))


Divide = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def sums(losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """[sum(weight * loss), sum(weight), rows, rows whose weight is not 0]."""
    rows = tf.shape(weights)[0]
    return tf.stack(
        [
            tf.reduce_sum(losses * weights),
            tf.reduce_sum(weights),
            tf.cast(rows, weights.dtype),
            tf.cast(tf.math.count_nonzero(weights), weights.dtype),
        ]
    )


def reduced(parts: tf.Tensor, reduction: str, *, divide: Divide) -> tf.Tensor:
    """The loss from the result of `sums`.

    The losses 1, 3 and 5 with the weights 1, 0.5 and 0 give

        mean                       (1 + 1.5) / 1.5 = 1.667
        sum                        1 + 1.5         = 2.5
        sum_over_batch_size        2.5 / 3         = 0.833
        sum_over_nonzero_weights   2.5 / 2         = 1.25

    `mean` is the default, because the scale of the loss and of the gradients does not depend on the
    number of masked rows. `tf.compat.v1.losses.Reduction` and Keras use the other names.

    Args:
      parts: [4], the result of `sums`.
      reduction: one of the names above.
      divide: the division, which defines the result for a denominator of 0.
    """
    total, weight_sum, rows, nonzero = tf.unstack(parts)
    if reduction == "sum":
        return total
    below = {
        "mean": weight_sum,
        "sum_over_batch_size": rows,
        "sum_over_nonzero_weights": nonzero,
    }
    return divide(total, below[reduction])


_COLLECTION = "estimator_kit/observed"


class Observed(NamedTuple):
    """One array of an evaluation.

    Attributes:
      objective: its name.
      kind: what the array means, one of the kinds that `observing.curves` draws.
      total: float64, the sum over all batches.
    """

    objective: str
    kind: str
    total: tf.Tensor


def observe(objective: str, kind: str, total: tf.Tensor) -> None:
    """Offers a total to whoever observes the evaluation; see `Observed`."""
    if not tf.executing_eagerly():
        tf.compat.v1.add_to_collection(_COLLECTION, Observed(objective, kind, total))


def change(objective: str, function: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Replaces each total that an objective has offered by a function of it."""
    if not tf.executing_eagerly():
        offered = tf.compat.v1.get_collection_ref(_COLLECTION)
        offered[:] = [
            each._replace(total=function(each.total)) if each.objective == objective else each
            for each in offered
        ]


def take(graph: tf.Graph) -> list[Observed]:
    """All that the objectives of a graph offered. The graph no longer has them afterwards.

    TensorFlow would try to write the collection into each MetaGraph.
    """
    observations = list(graph.get_collection(_COLLECTION))
    graph.clear_collection(_COLLECTION)
    return observations
