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

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

# A metric in the form of `EstimatorSpec.eval_metric_ops`: value and update op.
Metric = tuple[tf.Tensor, tf.Operation]


class Sharing:
    """Objectives that share the variables and the code of their metrics. See `together.metrics_of`.

    The metrics are made twice, in a function that adds a batch and in one that reads the values.
    Both get the variables in the order of their creation.

    Attributes:
      count: the number of objectives.
      index: int64, the objective of this call of the function.
      updates: whether the function adds a batch. Otherwise it reads values.
    """

    def __init__(self, count: int):
        self.count = count
        self.index: Any = None
        self.updates = True
        self._variables: list[Any] = []
        self._taken = 0

    @contextlib.contextmanager
    def applied(self, index: tf.Tensor, *, updates: bool) -> Iterator[None]:
        """The variables of `Stored` belong to all objectives in this block."""
        self.index, self.updates, self._taken = index, updates, 0
        _SHARING.append(self)
        try:
            yield
        finally:
            _SHARING.remove(self)

    def variable(self, make: Callable[[], Any]) -> Any:
        """The next variable, which the first function makes in the graph around it."""
        if self._taken == len(self._variables):
            with tf.init_scope():
                self._variables.append(make())
        self._taken += 1
        return self._variables[self._taken - 1]


_SHARING: list[Sharing] = []


class Stored:
    """A variable with the sums or rows of a metric, zeros before the first batch.

    In a block of `Sharing.applied`, one variable has an entry for each objective, and this is the
    entry of the objective at work.

    Args:
      name: the name of the variable.
      shape: its shape.
      dtype: its type.
      summed: whether it is the sum over the replicas of a distribution strategy.
    """

    def __init__(self, name: str, shape: Any, dtype: tf.DType, *, summed: bool = False):
        self._shared = _SHARING[-1] if _SHARING else None
        self._shape, self._dtype = tf.TensorShape(shape), dtype
        whole = [*([self._shared.count] if self._shared else []), *self._shape]
        keys = tf.compat.v1.GraphKeys
        replicas = {
            "synchronization": tf.VariableSynchronization.ON_READ,
            "aggregation": tf.VariableAggregation.SUM,
        }

        def make() -> Any:
            return tf.compat.v1.Variable(
                lambda: tf.zeros(whole, dtype),
                trainable=False,
                collections=[keys.LOCAL_VARIABLES, keys.METRIC_VARIABLES],
                use_resource=True,
                name=name,
                **(replicas if summed else {}),
            )

        self._variable = self._shared.variable(make) if self._shared else make()

    @property
    def adds(self) -> bool:
        """Whether the graph or function adds batches."""
        return self._shared is None or self._shared.updates

    def now(self) -> tf.Tensor:
        """What is stored now."""
        if self._shared is None:
            return self._variable.read_value()
        # A gather copies this entry only, even while another objective writes.
        return tf.gather(self._variable, self._shared.index)

    def value(self) -> tf.Tensor:
        """What is stored after all batches. A function that adds batches has zeros in its place."""
        if self._shared is None or not self._shared.updates:
            return self.now()
        return tf.zeros(self._shape, self._dtype)

    def add(self, values: tf.Tensor) -> Any:
        """The op that adds values of the same shape."""
        if self._shared is None:
            return self._variable.assign_add(values, read_value=True)
        if not self._shared.updates:
            return tf.no_op()
        each = tf.IndexedSlices(values[tf.newaxis], self._shared.index[tf.newaxis])
        return tf.group(self._variable.scatter_add(each))

    def write(self, values: tf.Tensor, begin: Any = None, end: Any = None) -> Any:
        """The op that replaces the values, or those from `begin` to `end` (int64)."""
        at = [] if self._shared is None else [self._shared.index]
        if self._shape.rank:
            at.append(slice(begin, end))
        return (self._variable[tuple(at)] if at else self._variable).assign(values)


def streaming_sum(values: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
    """The float64 sum of a tensor over all batches so far, and the op that adds this batch.

    Args:
      values: a number or an array of fixed shape. It is summed elementwise over batches.
      name: the name of the variable with the sum.

    Returns:
      (total, update), both float64 in the shape of `values`.
    """
    total = Stored(name, values.shape, tf.float64, summed=True)
    return total.value(), total.add(tf.cast(values, tf.float64))


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
    """[sum(weight * loss), sum(weight), rows, rows whose weight is not 0].

    Args:
      losses, weights: [rows], or [objectives, rows] for sums [4, objectives].
    """
    rows = tf.cast(tf.shape(weights)[-1], weights.dtype)
    weight_sum = tf.reduce_sum(weights, axis=-1)
    return tf.stack(
        [
            tf.reduce_sum(losses * weights, axis=-1),
            weight_sum,
            rows if weights.shape.rank == 1 else tf.fill(tf.shape(weight_sum), rows),
            tf.cast(tf.math.count_nonzero(weights, axis=-1), weights.dtype),
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
      parts: [4] or [4, objectives], the result of `sums`.
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


COLLECTION = "estimator_kit/observed"


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
        tf.compat.v1.add_to_collection(COLLECTION, Observed(objective, kind, total))


def change(objective: str, function: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Replaces each total that an objective has offered by a function of it."""
    if not tf.executing_eagerly():
        offered = tf.compat.v1.get_collection_ref(COLLECTION)
        offered[:] = [
            each._replace(total=function(each.total)) if each.objective == objective else each
            for each in offered
        ]


def take(graph: tf.Graph) -> list[Observed]:
    """All that the objectives of a graph offered. The graph no longer has them afterwards.

    TensorFlow would try to write the collection into each MetaGraph.
    """
    observations = list(graph.get_collection(COLLECTION))
    graph.clear_collection(COLLECTION)
    return observations
