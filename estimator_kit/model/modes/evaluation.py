"""The `EstimatorSpec` of an evaluation: the metrics of the kit, and those that a model adds.

Each metric is a value and an update op, as in `eval_metric_ops`. A value of the kit depends on the
rows of the evaluation, never on its batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import catalogue_ranks, operations, own_losses, own_session, user_code
from estimator_kit.model.heads import joint
from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum
from estimator_kit.model.modes import labeled
from estimator_kit.model.modes.labeled import Labeled
from estimator_kit.model.modes.prediction import Model
from estimator_kit.model.names import TOTAL_LOSS
from estimator_kit.tf_estimator import ModeKeys, estimator

# The prefix of the names of the metrics of `ModelFn.example_losses`.
EXAMPLE_LOSS = "example_loss"

# The names that tf.estimator gives to metrics.
_RESERVED = ("loss", "global_step")


def spec(
    model: Model, batch: Labeled, readers: frozenset[str], make_scaffold: Callable[[], Any]
) -> Any:
    """The `EstimatorSpec` of an evaluation.

    Args:
      model: the model.
      batch: the losses of the batch.
      readers: see `own_session.readers`.
      make_scaffold: returns the scaffold that restores the variables, or None. It is called last,
        because the metrics read variables of the combination of losses.
    """
    metrics = _of_heads(model, batch)
    for name, losses in batch.own.items():
        example_metric = own_losses.example_metric(model.heads[name], losses)
        metrics[f"{EXAMPLE_LOSS}/{name}"] = example_metric
    added = []
    for name, rows in batch.added.items():
        with tf.compat.v1.variable_scope(f"metrics/{own_losses.ADDED_LOSS}/{name}"):
            kind = own_losses.reduction(model.heads)
            metric, value = own_losses.metric(rows, kind)
        metrics[f"{own_losses.ADDED_LOSS}/{name}"] = metric
        added.append((value, metric[1]))
    with tf.name_scope("metrics/total_loss"):
        metrics[TOTAL_LOSS] = _total_loss(model, batch, metrics, added)
    for name, value in model.combination.factors(model.spec).items():
        metrics[f"loss_factor/{name}"] = (value, tf.identity(value))
    with user_code.explained(model, "metrics"):
        returned = model.metrics(**batch.user_arguments)
        metrics.update(_checked(type(model).__name__, returned, metrics))
    hooks = own_session.of_evaluation(model, readers)
    hooks += catalogue_ranks.take_hooks(tf.compat.v1.get_default_graph())
    return estimator.EstimatorSpec(
        ModeKeys.EVAL,
        predictions=batch.user_arguments["predictions"],  # For `tf.estimator.add_metrics`.
        loss=batch.loss,
        eval_metric_ops=metrics,
        evaluation_hooks=hooks,
        scaffold=make_scaffold(),
    )


def _of_heads(model: Model, batch: Labeled) -> dict[str, Metric]:
    """`rows`, and the metrics of the objectives."""
    # In batches of static shape, `rows` is a constant, which would be added once too often at the
    # end of the input.
    with tf.name_scope("metrics/rows"):
        with tf.control_dependencies(list(batch.labels.values())):
            rows = tf.identity(batch.rows)
        result: dict[str, Metric] = {"rows": streaming_sum(rows, "rows")}
    of_heads = joint.metrics_of(model.heads, batch.logits, batch.labels, batch.weights)
    if not model.calibrated:
        for name, head in model.heads.items():
            for kind in head.config.always:
                if kind.of_probabilities:
                    of_heads.pop(f"{kind.name}/{name}", None)
    return {**result, **of_heads}


def _total_loss(
    model: Model, batch: Labeled, metrics: Mapping[str, Metric], added: Sequence[Metric]
) -> Metric:
    """The model's loss over all rows. Estimator's `loss` is a mean over batches.

    As in training, the loss of an objective without weight is 0. If no objective has weight, or if
    the loss of a batch is NaN, it is NaN: a model whose loss is undefined must not be the best.

    The losses that the model adds are over all rows, too. Those without weight are 0. A penalty
    may depend on the batch. Its mean over batches is weighted by their rows.
    """
    sources = {
        name: metrics[f"{EXAMPLE_LOSS if name in batch.own else 'loss'}/{name}"]
        for name in model.heads
    }
    broken, counting = streaming_sum(_undefined(model, batch), "undefined_losses")
    nan = tf.constant(float("nan"), tf.float64)
    losses = tf.stack([value for value, _ in sources.values()])
    missing = tf.math.is_nan(losses)
    losses = tf.where(missing & tf.equal(broken, 0), tf.zeros_like(losses), losses)
    values = dict(zip(sources, tf.unstack(tf.cast(losses, tf.float32))))
    v1 = tf.compat.v1  # The same variables as in the call for the batch.
    with v1.variable_scope(v1.get_variable_scope(), reuse=True, auxiliary_name_scope=False):
        total = labeled.total(model, values)
    with user_code.explained(model, "loss"):
        _refuse_batch(model, batch, total)
    total = tf.where(tf.reduce_all(missing), tf.cast(nan, total.dtype), total)
    updates = [counting, *(update for _, update in [*sources.values(), *added])]
    total = tf.add_n([total, *(tf.cast(value, total.dtype) for value, _ in added)])
    if batch.penalties:
        rows = tf.cast(batch.rows, tf.float64)
        penalty = tf.cast(tf.add_n(list(batch.penalties)), tf.float64)
        sums, update = streaming_sum(tf.stack([penalty * rows, rows]), "penalties")
        total += tf.cast(ratio(sums[0], sums[1]), tf.float32)
        updates.append(update)
    return total, tf.group(*updates)


def _refuse_batch(model: Model, batch: Labeled, total: tf.Tensor) -> None:
    """Refuses a loss over all rows that reads a tensor of a batch, of which the end has none."""
    tensors = tf.nest.flatten([batch.features, batch.labels], expand_composites=True)
    if {tensor.op.name for tensor in tensors} & {op.name for op in operations.needed([total])}:
        raise ConfigError(
            f"{type(model).__name__}.loss: it uses a tensor of the batch, but an evaluation calls "
            "it with the losses over all rows. Use self.add_loss(name, losses) in logits, which "
            "also works in an evaluation."
        )


def _undefined(model: Model, batch: Labeled) -> tf.Tensor:
    """float64 [objectives], above 0 where the loss or a prediction of this batch is NaN."""
    losses = tf.stack([batch.losses[name] for name in model.heads])
    nan_logits = joint.nan_logits(model.heads, batch.logits, batch.labels, batch.weights)
    counts = tf.stack([nan_logits[name] for name in model.heads])
    return tf.cast(tf.math.is_nan(losses), tf.float64) + counts


def _checked(model: str, returned: Any, taken: Collection[str]) -> dict[str, Any]:
    """The metrics that `ModelFn.metrics` returned, as pairs of one number and its update.

    Raises:
      ConfigError: a name is in use, or a value is not numbers and an update op.
    """
    place = f"{model}.metrics"
    if not isinstance(returned, Mapping):
        raise ConfigError(
            f"{place}: expected {{name: (value, update op)}}, got {returned!r}. Return a dict."
        )
    result: dict[str, Any] = {}
    for name, metric in returned.items():
        for each, pair in _numbers(place, name, metric).items():
            if each in taken or each in _RESERVED or each in result:
                raise ConfigError(
                    f"{place}: got the metric {each!r}, which the kit computes already. Use "
                    "another name."
                )
            result[each] = pair
    return result


def _numbers(place: str, name: str, metric: Any) -> dict[str, Metric]:
    """A metric by its name, and each number of an array by the name and its place: `name/0`."""
    value, update = _pair(place, name, metric)
    shape = value.shape
    if shape.rank is None:
        return {name: (tf.ensure_shape(value, []), update)}
    if not shape.is_fully_defined():
        raise ConfigError(
            f"{place}: expected a fixed number of values for {name!r}, got {value!r}. Reduce them "
            "to one number, or set their shape."
        )
    return {
        "/".join([name, *map(str, index)]): (value[index] if index else value, update)
        for index in np.ndindex(*shape.as_list())
    }


def _pair(place: str, name: str, metric: Any) -> Metric:
    """(value, update op) of a metric, with the types that `tf.estimator` takes."""
    graph = tf.compat.v1.get_default_graph()
    returned = metric
    if isinstance(metric, tf.keras.metrics.Metric):
        if not metric.updates:
            raise ConfigError(
                f"{place}: the Keras metric {name!r} has no update, got {metric!r}. Call its "
                "update_state before you return it."
            )
        keys = tf.compat.v1.GraphKeys
        for key in (keys.LOCAL_VARIABLES, keys.METRIC_VARIABLES):  # As tf.estimator does.
            listed = {id(variable) for variable in graph.get_collection(key)}
            for variable in metric.variables:
                if id(variable) not in listed:
                    graph.add_to_collection(key, variable)
        metric = metric.result(), metric.updates[0]  # tf.estimator runs the first update.
    if isinstance(metric, tuple) and len(metric) == 2:
        value, update = metric[0], tf.nest.flatten(metric[1])
        ops = all(isinstance(each, (tf.Tensor, tf.Operation, tf.Variable)) for each in update)
        if isinstance(value, (tf.Tensor, tf.Variable)) and update and ops:
            user_code.check_graph(f"{place}: the metric {name!r}", (value, *update))
            dtype = value.dtype.base_dtype
            if dtype.is_floating or dtype.is_integer or dtype.is_bool:
                return tf.convert_to_tensor(value), tf.group(*update)
    raise ConfigError(
        f"{place}: expected (value, update op) for {name!r}, where the value is numbers, got "
        f"{returned!r}. Use tf.compat.v1.metrics or an updated tf.keras.metrics."
    )
