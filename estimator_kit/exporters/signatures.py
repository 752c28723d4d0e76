"""The signatures of an export.

  serving_default       one of those below, by --default_signature
  predict_examples      all objectives, from serialized records under `examples`
  predict_raw           the same, from one tensor a feature; see
  `input_pipelines.transform.raw_inputs` predict/<objective>   one objective, from `examples`
  classify/<objective>  where its head has classes: `classes` and `scores`, from `inputs`
  regress/<objective>   where its head has a number: `outputs`, from `inputs`
  <name>                what the model gives beside them by `add_output`, from `examples`

The number of rows is free in all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.errors import ConfigError
from estimator_kit.exporters.graph_copy import CopyError, copied, depends_on
from estimator_kit.model.model_fn import PREDICT_EXAMPLES, ModelFn
from feature_specs.errors import did_you_mean
from input_pipelines.transform.serving_inputs import EXAMPLES, ServingInputs
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")

SERVING_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
PREDICT_RAW = "predict_raw"


def make_signatures(
    export_outputs: Mapping[str, Any], inputs: ServingInputs, default: str
) -> dict[str, Any]:
    """`{name: SignatureDef}` of the graph that a model_fn has made of `inputs.features`.

    Args:
      export_outputs: of its EstimatorSpec.
      inputs: what requests fill.
      default: the name of the one that is `serving_default`, too.

    Raises:
      ConfigError: there is none of that name.
    """
    joint = export_outputs.get(PREDICT_EXAMPLES, export_outputs[SERVING_DEFAULT])
    outputs = {**export_outputs, PREDICT_EXAMPLES: joint}
    found = {
        name: output.as_signature_def({EXAMPLES: inputs.examples})
        for name, output in outputs.items()
        if name != SERVING_DEFAULT
    }
    try:
        raw = raw_outputs(joint.outputs, inputs)
    except CopyError as error:
        _log.warning("the export has no signature %s: of this model %s", PREDICT_RAW, error)
    else:
        found[PREDICT_RAW] = tf.compat.v1.saved_model.predict_signature_def(inputs.raw, raw)
    check_name(default, found)
    return {**found, SERVING_DEFAULT: found[default]}


def raw_outputs(outputs: Mapping[str, tf.Tensor], inputs: ServingInputs) -> dict[str, tf.Tensor]:
    """The same outputs, of the features that come one by one."""
    old, new = (
        tf.nest.flatten(features, expand_composites=True)
        for features in (inputs.features, inputs.raw_features)
    )
    values = copied(list(outputs.values()), list(zip(old, new)), name="raw")
    if depends_on(values, inputs.examples):
        raise CopyError("an output reads the records past the features")
    return dict(zip(outputs, values))


def check_default(name: str, model: ModelFn) -> None:
    """Raises ConfigError when no export of the model could have that signature."""
    if name in (PREDICT_EXAMPLES, PREDICT_RAW):
        return
    with tf.Graph().as_default() as graph:
        graph.seed = 1  # Nothing is drawn in it; see `checkpoints`.
        tf.compat.v1.train.get_or_create_global_step()
        examples = tf.compat.v1.placeholder(tf.string, [None])
        made = model(Transform(model.spec).features(examples), None, ModeKeys.PREDICT)
    check_name(name, [*made.export_outputs, PREDICT_RAW])


def check_name(name: str, there: Iterable[str]) -> None:
    known = sorted(set(there) - {SERVING_DEFAULT})
    if name not in known:
        raise ConfigError(
            f"--default_signature={name}: the model has no such signature"
            f"{did_you_mean(name, known)}"
        )
