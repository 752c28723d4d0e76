"""What training and evaluation share: a batch with labels, and its losses.

The loss of an objective is the loss of its head, or `ModelFn.example_losses`. Both modes compute it
in the same way, so an evaluation measures what is trained.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit.config import user_errors
from estimator_kit.errors import ConfigError
from estimator_kit.model import operations, own_losses, user_code
from estimator_kit.model.heads import joint
from estimator_kit.model.logits import check_rows, tensors_of
from estimator_kit.model.modes import prediction
from estimator_kit.model.modes.prediction import Model
from estimator_kit.model.names import LOSS_TENSOR, ROWS_TENSOR
from estimator_kit.model.own_losses import Added, Weighted
from estimator_kit.optimizers.combining import Weights
from estimator_kit.tf_estimator import ModeKeys
from feature_specs.spec import FeatureSpec
from input_pipelines.input_fns import PADDING
from input_pipelines.transform.checks import bounded
from input_pipelines.transform.transforms import Features


@dataclasses.dataclass(frozen=True)
class Labeled:
    """A batch with labels.

    Attributes:
      features: the features that `ModelFn.logits` got.
      labels, weights: the checked labels by name, and the weights by objective.
      logits: the logits by objective.
      user_arguments: the arguments of `ModelFn.example_losses` and `ModelFn.metrics`; empty if
        training calls neither.
      own: the losses of rows that the model computes itself, by objective.
      losses: the loss of each objective.
      added: the losses of rows that the model adds, with their weights, by name.
      added_losses: the loss of the batch of each.
      penalties: the regularization losses of layers and of embedding vectors, and the losses of
        batches that `logits` puts into the collection LOSSES.
      loss: the loss of the batch, with the added losses and the penalties.
      rows: the number of rows, 0 for a batch of padding.
    """

    features: Features
    labels: Mapping[str, tf.Tensor]
    weights: Mapping[str, tf.Tensor]
    logits: Mapping[str, Any]
    user_arguments: Mapping[str, Any]
    own: Mapping[str, Weighted]
    losses: Mapping[str, tf.Tensor]
    added: Mapping[str, Weighted]
    added_losses: Mapping[str, tf.Tensor]
    penalties: Sequence[tf.Tensor]
    loss: tf.Tensor
    rows: tf.Tensor


def labeled_batch(
    model: Model,
    features: Features,
    labels: Mapping[str, tf.Tensor],
    logits: Mapping[str, tf.Tensor],
    outputs: prediction.Outputs,
    mode: str,
    *,
    added: Added,
    penalties: Sequence[tf.Tensor],
    computes_losses: bool,
    sums_losses: bool,
) -> Labeled:
    """Computes the losses of a batch.

    Args:
      model: the model.
      features, labels: of the input_fn.
      logits: the logits by objective.
      outputs: the added outputs.
      mode: TRAIN or EVAL.
      added: the losses that `logits` added.
      penalties: the penalties of embedding vectors.
      computes_losses: whether the model overrides `example_losses`. Otherwise the graph of a
        training has no predictions.
      sums_losses: whether the loss is the weighted sum of the losses of all objectives. Otherwise,
        training may need the gradients of single losses.
    """
    padding = labels.get(PADDING)
    with tf.name_scope("labels"):
        label = next(value for name, value in labels.items() if name != PADDING)
        labels, weights = model.labels_and_weights(labels)
    with tf.name_scope("logits"):
        logits = check_rows(user_code.name_of(model, "logits"), logits, label)
    user_arguments: dict[str, Any] = {}
    if computes_losses or mode == ModeKeys.EVAL:
        of_objectives = prediction.of_all(model.heads, logits)
        predictions = prediction.joined(of_objectives, outputs)
        user_arguments = {
            "labels": user_code.Named(labels, "labels"),
            "predictions": user_code.Named(predictions, "predictions"),
            "weights": weights,
            "features": features,
        }
    own = _own_losses(model, user_arguments) if computes_losses else {}
    apart = mode == ModeKeys.TRAIN and not (sums_losses and isinstance(model.combination, Weights))
    losses = _losses(model, logits, labels, weights, own, apart=apart)
    loss = _combined(model, losses, mode)
    own_losses.check_used(type(model).__name__, added, [loss])
    with tf.name_scope(own_losses.ADDED_LOSS):
        row_losses = added.weighted(weights, padding)
        kind = own_losses.reduction(model.heads)
        batch_losses = {name: own_losses.loss(each, kind) for name, each in row_losses.items()}
    regularization = tf.compat.v1.losses.get_regularization_losses()
    penalties = [*regularization, *added.of_batch, *penalties]
    if padding is not None:  # Such a batch changes nothing.
        penalties = [tf.where(padding, tf.zeros_like(each), each) for each in penalties]
    if penalties or batch_losses:
        loss = tf.add_n([loss, *batch_losses.values(), *penalties])
    loss = _named(model, loss, LOSS_TENSOR)
    with tf.name_scope("rows"):
        rows = tf.shape(tensors_of(logits)[0])[0]
        if padding is not None:
            rows = tf.where(padding, 0, rows)
    rows = _named(model, rows, ROWS_TENSOR)
    return Labeled(
        features, labels, weights, logits, user_arguments, own, losses, row_losses,
        batch_losses, penalties, loss=loss, rows=rows,
    )  # fmt: skip


def _named(model: Model, value: tf.Tensor, name: str) -> tf.Tensor:
    """The value under a name of the kit, which hooks of users read."""
    named_value = tf.identity(value, name=name)
    scope = tf.compat.v1.get_default_graph().get_name_scope()
    if named_value.op.name != (f"{scope}/{name}" if scope else name):
        raise ConfigError(
            f"{type(model).__name__} makes an op with the name {name}, which the kit gives to its "
            "own. Use another name."
        )
    return named_value


def _own_losses(model: Model, user_arguments: Mapping[str, Any]) -> dict[str, Weighted]:
    name = user_code.name_of(model, "example_losses")
    with user_code.explained(model, "example_losses"):
        returned = model.example_losses(**user_arguments)
        with tf.name_scope("example_losses"):
            return own_losses.checked(
                name, returned, model.heads, user_arguments["labels"], user_arguments["weights"]
            )


def _losses(
    model: Model,
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
    own: Mapping[str, Weighted],
    *,
    apart: bool,
) -> dict[str, tf.Tensor]:
    """The loss of each objective, in the order of the spec."""
    heads = {name: head for name, head in model.heads.items() if name not in own}
    losses = joint.losses_of(heads, logits, labels, weights, apart=apart)
    for name, rows in own.items():
        losses[name] = own_losses.example_loss(model.heads[name], rows)
    return {name: losses[name] for name in model.heads}


def _combined(model: Model, losses: Mapping[str, tf.Tensor], mode: str) -> tf.Tensor:
    """The loss of a batch without regularization."""
    if mode == ModeKeys.TRAIN and not isinstance(model.combination, Weights):
        loss = model.combination.total(losses, model.spec)
    else:
        loss = total(model, losses)
    return loss


def total(model: Model, losses: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The result of `ModelFn.loss`.

    Raises:
      ConfigError: it is not one number that depends on the losses.
    """
    with user_code.explained(model, "loss"):
        loss = model.loss(user_code.Named(losses, "losses"))
        place = f"{type(model).__name__}.loss"
        if not isinstance(loss, tf.Tensor) or loss.shape.rank != 0 or not loss.dtype.is_floating:
            raise ConfigError(f"{place} returned {loss!r}, expected one number, as a tensor")
        user_code.check_graph(f"{place}: the loss", [loss])
        if user_errors.place_of_method(type(model), "loss") is not None:
            used = {op.name for op in operations.needed([loss])}
            if used.isdisjoint(each.op.name for each in losses.values()):
                raise ConfigError(
                    f"{place} returned {loss!r}, which does not depend on its argument. Combine "
                    "the losses of the objectives, and use self.add_loss in logits for others."
                )
    return tf.cast(loss, tf.float32)


def checked_labels(
    spec: FeatureSpec, place: str, returned: Any, labels: Mapping[str, tf.Tensor]
) -> Mapping[str, tf.Tensor]:
    """The result of `ModelFn.checked_labels`, which got `labels`.

    Args:
      spec: the feature spec.
      place: the file, line, class and method, for messages of a session.
      returned: the result.
      labels: the argument.

    Raises:
      ConfigError: a label is missing, or has another shape, or no numbers in the place of numbers.
      tf.errors.InvalidArgumentError (in the graph): its head cannot learn a label.
    """
    result, checks = {}, []
    if not isinstance(returned, Mapping):
        raise ConfigError(f"expected {{label: tensor}}, got {returned!r}. Return the labels.")
    for name, label in labels.items():
        value = returned.get(name)
        is_text = label.dtype == tf.string
        if not isinstance(value, tf.Tensor) or (value.dtype == tf.string) != is_text:
            raise ConfigError(
                f"expected the label {name!r} in the form of {label!r}, got {value!r}. Return all "
                "labels."
            )
        user_code.check_graph(f"the label {name!r}", [value])
        if not value.shape.is_compatible_with(label.shape):
            raise user_code.WrongRows(
                f"expected the shape {label.shape} for the label {name!r}, got {value!r}. Return "
                "one value for each row."
            )
        if value is not label:
            text = f"{place}: expected one value for each row for the label {name!r}, got"
            checks.append(user_code.equal_shapes(text, tf.shape(value), tf.shape(label)))
            if name in spec.labels and not is_text:
                checks += _checks_of_values(spec, name, f"{place}: the label {name!r}", value)
    with tf.control_dependencies(checks):
        for name, value in returned.items():
            result[name] = tf.identity(value) if checks and name in labels else value
    return result


def _checks_of_values(
    spec: FeatureSpec, name: str, text: str, values: tf.Tensor
) -> list[tf.Operation]:
    """Checks in the graph that a head can learn a label; none for a label of parts or of items."""
    head = spec.objectives[spec.objective_of(name)]
    if head.label_parts or head.items_column is not None:
        return []
    bounds = (0, 1) if spec.labels[name].variable else head.label_bounds
    has_classes = head.classes is not None
    return [bounded(f"{user_code.CHECK}{text}", values, bounds, whole=has_classes).op]
