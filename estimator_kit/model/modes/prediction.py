"""The predictions and signatures of a model. Evaluation uses the predictions, too.

`Model` has the parts of a `ModelFn` that its modes use. It is a protocol, because `ModelFn` imports
the modes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Optional, Protocol

import tensorflow as tf

from estimator_kit.model import outputs as model_outputs
from estimator_kit.model.heads import Head, together
from estimator_kit.model.heads.class_metrics import words_of_classes
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from estimator_kit.model.own_losses import ExampleLosses
from estimator_kit.optimizers.choice import OptimizerChoice
from estimator_kit.optimizers.combining import Combination
from estimator_kit.optimizers.sync_replicas import Synchronous
from estimator_kit.tf_estimator import ModeKeys, estimator
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features

Outputs = Sequence[model_outputs.Output]

_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_RESERVED = (PREDICT_EXAMPLES, PREDICT_RAW, _DEFAULT)


def by_objective(
    heads: Mapping[str, Head], logits: Mapping[str, tf.Tensor]
) -> dict[str, dict[str, tf.Tensor]]:
    """`{objective: {name: prediction}}`."""
    predictions = {}
    for name, head in heads.items():
        with tf.name_scope(f"objectives/{name}/predictions"):
            predictions[name] = head.predictions(logits[name])
    return predictions


def of_all(
    heads: Mapping[str, Head], logits: Mapping[str, tf.Tensor]
) -> dict[str, dict[str, tf.Tensor]]:
    """The same, where heads with the same settings are computed together.

    One prediction then needs the logits of all of them, so an export does not use it.
    """
    predictions: dict[str, dict[str, tf.Tensor]] = {}
    for names in together.alike(heads, {n: _form(heads[n], logits[n]) for n in heads}):
        with tf.name_scope(f"objectives/{names[0]}/predictions"):
            if len(names) == 1:
                predictions[names[0]] = heads[names[0]].predictions(logits[names[0]])
                continue
            rows = tf.concat([logits[name] for name in names], axis=0)
            for key, value in heads[names[0]].predictions(rows).items():
                for name, part in zip(names, tf.split(value, len(names))):
                    predictions.setdefault(name, {})[key] = part
    return {name: predictions[name] for name in heads}


def _form(head: Head, logits: Any) -> Any:
    words = head.label.vocabulary
    return (*together.form(logits), None if words is None else tuple(words))


def joined(found: Mapping[str, Mapping[str, tf.Tensor]], added: Outputs) -> dict[str, tf.Tensor]:
    """All predictions, by `<objective>/<name>` or the name of an added output."""
    joint = {
        f"{name}/{key}": value
        for name, predictions in found.items()
        for key, value in predictions.items()
    }
    model_outputs.check_names(added, joint)
    return {**joint, **{output.name: output.value for output in added}}


def spec(
    heads: Mapping[str, Head],
    logits: Mapping[str, tf.Tensor],
    added: Outputs,
    features: Features,
    scaffold: Any,
    hooks: Sequence[Any] = (),
) -> Any:
    """The `EstimatorSpec` of predictions and exports.

    Args:
      heads: the heads of the objectives, by name.
      logits: the logits by objective.
      added: the outputs that the model added.
      features: the features that `ModelFn.logits` got.
      scaffold: restores the weights, or None.
      hooks: the hooks of a prediction.
    """
    predictions = by_objective(heads, logits)
    joint = joined(predictions, added)
    outputs: dict[str, Any] = {}
    for name, head in heads.items():
        with tf.name_scope(f"objectives/{name}/signatures"):
            words = words_of_classes(head, predictions[name])
            signatures = {
                **head.export_outputs(predictions[name]),
                **head.more_outputs(logits[name], predictions[name], features),
            }
        outputs[f"predict/{name}"] = estimator.export.PredictOutput({**predictions[name], **words})
        outputs.update({f"{method}/{name}": output for method, output in signatures.items()})
    model_outputs.check_names(added, {*outputs, *_RESERVED})
    for output in added:
        outputs[output.name] = estimator.export.PredictOutput({output.name: output.value})
    outputs[PREDICT_EXAMPLES] = estimator.export.PredictOutput(joint)
    # tf.estimator requires this signature. An export may choose another default.
    outputs[_DEFAULT] = estimator.export.PredictOutput(joint)
    return estimator.EstimatorSpec(
        ModeKeys.PREDICT,
        predictions=joint,
        export_outputs=outputs,
        scaffold=scaffold,
        prediction_hooks=hooks,
    )


# A `tf.compat.v1.train.SessionRunHook`.
Hook = Any

Tensors = Mapping[str, tf.Tensor]


class Model(Protocol):
    """See `ModelFn` for each attribute and method."""

    calibrated: ClassVar[bool]
    spec: FeatureSpec
    params: Any
    heads: dict[str, Head]
    combination: Combination
    warm_start: Any
    together: Optional[Synchronous]
    last_step: Optional[int]

    def labels_and_weights(self, labels: Tensors) -> tuple[Tensors, Tensors]: ...

    def example_losses(
        self, labels: Tensors, predictions: Tensors, weights: Tensors, features: Features
    ) -> ExampleLosses: ...

    def loss(self, losses: Tensors) -> tf.Tensor: ...

    def metrics(
        self, labels: Tensors, predictions: Tensors, weights: Tensors, features: Features
    ) -> Mapping[str, Any]: ...

    def hooks(self, mode: str) -> Sequence[Hook]: ...

    def first_values(self) -> Mapping[str, Any]: ...

    def scaffold(self, mode: str) -> Optional[Any]: ...

    def shared_prefix(self) -> Optional[str]: ...

    def optimizers(self) -> Sequence[tuple[str, Any]]: ...

    def make_optimizer(self, optimizer: OptimizerChoice, learning_rate: float) -> Any: ...

    def train_op(self, loss: tf.Tensor) -> tf.Operation: ...
