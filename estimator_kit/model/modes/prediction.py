"""The predictions and signatures of a model. Evaluation uses the predictions, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys, estimator
from estimator_kit.model import outputs as model_outputs
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from estimator_kit.model.objectives import Objective
from estimator_kit.model.objectives.classes import words_of_classes
from input_pipelines.transform.transforms import Features

Outputs = Sequence[model_outputs.Output]

_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_RESERVED = (PREDICT_EXAMPLES, PREDICT_RAW, _DEFAULT)


def by_objective(
    objectives: Mapping[str, Objective], logits: Mapping[str, tf.Tensor]
) -> dict[str, dict[str, tf.Tensor]]:
    """`{objective: {name: prediction}}`."""
    found = {}
    for name, objective in objectives.items():
        with tf.name_scope(f"objectives/{name}/predictions"):
            found[name] = objective.predictions(logits[name])
    return found


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
    objectives: Mapping[str, Objective],
    logits: Mapping[str, tf.Tensor],
    added: Outputs,
    features: Features,
    scaffold: Any,
    hooks: Sequence[Any] = (),
) -> Any:
    """The `EstimatorSpec` of predictions and exports.

    Args:
      objectives: the objectives by name.
      logits: the logits by objective.
      added: the outputs that the model added.
      features: the features that `ModelFn.logits` got.
      scaffold: restores the weights, or None.
      hooks: the hooks of a prediction.
    """
    found = by_objective(objectives, logits)
    joint = joined(found, added)
    outputs: dict[str, Any] = {}
    for name, objective in objectives.items():
        with tf.name_scope(f"objectives/{name}/signatures"):
            words = words_of_classes(objective, found[name])
            signatures = {
                **objective.export_outputs(found[name]),
                **objective.more_outputs(logits[name], found[name], features),
            }
        outputs[f"predict/{name}"] = estimator.export.PredictOutput({**found[name], **words})
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
