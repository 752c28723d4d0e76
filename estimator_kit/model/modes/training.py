"""The `EstimatorSpec` of a training, with the op of a step.

A model may make the op itself (`train_op`), choose optimizers (`optimizers`), or leave both to the
kit. A combination of several losses may add an update, too.

It also makes tensors of a batch that a hook reads by name, to show them in TensorBoard. They never
run unless a hook asks for them, so a step without a summary costs nothing. They
are made last, because the random ops of a graph depend on the ops before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import ConfigError
from estimator_kit.model import initial_values, own_session, user_code
from estimator_kit.model.heads import Head, joint
from estimator_kit.model.modes import own_step
from estimator_kit.model.modes.evaluation import EXAMPLE_LOSS
from estimator_kit.model.modes.labeled import Labeled
from estimator_kit.model.modes.prediction import Model
from estimator_kit.model.names import LOSSES_SCOPE
from estimator_kit.model.own_losses import ADDED_LOSS
from estimator_kit.optimizers.choice import NothingLearned, minimize
from estimator_kit.optimizers.combining import Weights
from estimator_kit.optimizers.combining.base import MakeGradients
from estimator_kit.optimizers.freezing import not_frozen
from estimator_kit.tf_estimator import ModeKeys, estimator
from feature_specs.feature import Image
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features

# `<scope>/prediction_mean/<objective>`: float32, the weighted mean of a batch.
MEANS_SCOPE = "estimator_kit/means"
# `<scope>/<column>`: float32 [up to IMAGES, height, width, channels].
IMAGES_SCOPE = "estimator_kit/images"

IMAGES = 3


def name_means(
    heads: Mapping[str, Head],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> None:
    """Names the mean prediction and the mean label of each objective that has them."""
    for key, value in joint.means_of(heads, logits, labels, weights).items():
        tf.identity(value, name=f"{MEANS_SCOPE}/{key}")


def name_images(spec: FeatureSpec, features: Features) -> None:
    """Names the first images of each column that reads a feature with `decode: image`."""
    for name, column in spec.columns.items():
        if name not in features or not column.is_numbers(spec):
            continue
        decode = spec.features[next(spec.features_of(name))].decode
        if isinstance(decode, Image):
            images = tf.reshape(features[name][:IMAGES], [-1, *decode.shape])
            tf.identity(images, name=f"{IMAGES_SCOPE}/{name}")


def spec(model: Model, batch: Labeled, readers: frozenset[str], *, own_train_op: bool) -> Any:
    """The `EstimatorSpec` of a training.

    Args:
      model: the model.
      batch: the losses of the batch.
      readers: see `own_session.readers`.
      own_train_op: whether the model overrides `train_op`.
    """
    _summarize(batch, model.combination.factors(model.spec))
    try:
        train_op = _step(model, batch, own_step.train_op if own_train_op else _train_op)
        train_op = growing_ids.after_step(train_op)
    except NothingLearned:
        all_own = model.heads.keys() == batch.own.keys()
        with user_code.explained(model, "example_losses" if all_own else "logits"):
            raise
    name_means(model.heads, batch.logits, batch.labels, batch.weights)
    name_images(model.spec, batch.features)
    with user_code.explained(model, "first_values"):
        first = initial_values.checked_values(type(model).__name__, model.first_values())
    scaffold = initial_values.scaffold(
        model.spec,
        model.warm_start,
        first,
        own_session.checked_scaffold(model, ModeKeys.TRAIN),
    )
    return estimator.EstimatorSpec(
        ModeKeys.TRAIN,
        loss=batch.loss,
        train_op=train_op,
        **own_session.of_training(model, readers),
        scaffold=scaffold,
    )


def _summarize(batch: Labeled, factors: Mapping[str, tf.Tensor]) -> None:
    """Names the loss of each objective for hooks, and writes it for TensorBoard.

    The tags are the names of the metrics of an evaluation.
    """
    losses = {}
    for name, value in batch.losses.items():
        tag = EXAMPLE_LOSS if name in batch.own else "loss"
        losses[f"{tag}/{name}"] = tf.identity(value, name=f"{LOSSES_SCOPE}/{name}")
    _summarize_scalars(losses)
    for name, value in batch.added_losses.items():
        tf.compat.v1.summary.scalar(f"{ADDED_LOSS}/{name}", value)
    _summarize_scalars({f"loss_factor/{name}": value for name, value in factors.items()})


def _summarize_scalars(values: Mapping[str, tf.Tensor]) -> None:
    """`tf.compat.v1.summary.scalar` of several values of one type, in one op."""
    if len(values) < 2 or tf.distribute.has_strategy():  # Only the first replica has summaries.
        for name, value in values.items():
            tf.compat.v1.summary.scalar(name, value)
        return
    tags = []
    for name in values:
        with tf.name_scope(name) as scope:  # So tags are as different as names of ops.
            tags.append(scope.rstrip("/"))
    summary = tf.raw_ops.ScalarSummary(tags=tags, values=tf.stack(list(values.values())))
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SUMMARIES, summary)


def _train_op(model: Model, loss: tf.Tensor) -> tf.Operation:
    return model.train_op(loss)


def _step(
    model: Model, batch: Labeled, train_op: Callable[[Model, tf.Tensor], tf.Operation]
) -> tf.Operation:
    """The op of a training step, including the update of the combination of losses."""
    combination = model.combination
    if isinstance(combination, Weights):
        return train_op(model, batch.loss)
    variables = not_frozen(tf.compat.v1.trainable_variables(), model.params.freeze)
    with user_code.explained(model, "shared_prefix"):
        prefix = model.shared_prefix()
        if not isinstance(prefix, (str, type(None))):
            raise ConfigError(
                f"expected the prefix of names of variables, or None, got {prefix!r}. Return a "
                "text."
            )
        after = combination.after_step(batch.losses, model.spec, variables, prefix)
    more = [*batch.added_losses.values(), *batch.penalties]
    gradients = combination.gradients(batch.losses, model.spec, more)
    # With gradients, the model overrides no method of this step. See `check_combination`.
    if gradients is None:
        step_op = train_op(model, batch.loss)
    else:
        step_op = minimized(model, batch.loss, gradients)
    if after is None:
        return step_op
    with tf.control_dependencies([step_op]):
        return after()


def minimized(
    model: Model, loss: tf.Tensor, gradients: Optional[MakeGradients] = None
) -> tf.Operation:
    """`optimizers.choice.minimize` with the optimizers and parameters of a model."""
    p = model.params
    return minimize(
        loss,
        _chosen_optimizers(model),
        clip_norm=p.clip_norm,
        clip_value=p.clip_value,
        freeze=p.freeze,
        accumulate=p.accumulate,
        last_step=model.last_step,
        average=p.moving_average,
        gradients=gradients,
        together=model.together,
    )


def _chosen_optimizers(model: Model) -> Sequence[tuple[str, Any]]:
    p = model.params
    if p.optimizers is not None:
        return [
            (prefix, model.make_optimizer(choice, p.learning_rate))
            for prefix, choice in p.optimizers.items()
        ]
    pairs = own_step.optimizers(model)
    if p.schedule is not None or p.warm_up_steps:
        for prefix, optimizer in pairs:
            if not getattr(optimizer, "follows_schedule", False):
                with user_code.explained(model, "optimizers"):
                    raise ConfigError(
                        f"{type(model).__name__}.optimizers makes the optimizer for {prefix!r} "
                        "without self.make_optimizer, so it would ignore the parameters schedule "
                        "and warm_up_steps. Use self.make_optimizer, or remove the parameters."
                    )
    return pairs
