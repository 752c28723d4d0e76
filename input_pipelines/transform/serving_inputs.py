"""The serving end of the input: requests become what the model gathers from.

Uses the same `Transform` as training; there is no second reading of a record. `tf.estimator` is not
needed here: estimator_kit.exporters.serving_receiver wraps the result for it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.transform import raw_inputs
from input_pipelines.transform.raw_inputs import op_name as op_name
from input_pipelines.transform.transforms import Features, Transform

# The receiver tensor's name, as TensorFlow's own parsing receivers call it.
EXAMPLES = "examples"

# The scopes of the ops, named after columns, that `ServingInputs` gives the model.
COLUMN_SCOPES = ("features", "raw_features")


@dataclasses.dataclass(frozen=True)
class ServingInputs:
    """Both ways into a serving graph.

    Attributes:
      examples: serialized `tf.train.Example`s (SequenceExamples if the spec has feature lists), a
        string tensor [rows].
      features: what the model reads of them. It depends on its tensors alone, so that others can
        be put in their place: every tensor of it is an op of its own.
      raw: a tensor for each feature; see `raw_inputs`.
      raw_features: what the model would read of those; of the same structure as `features`.
    """

    examples: tf.Tensor
    features: Features
    raw: dict[str, tf.Tensor]
    raw_features: Features


def serving_inputs(spec: FeatureSpec) -> ServingInputs:
    """Makes both in the current graph. The number of rows is free."""
    examples = _examples()
    transform = Transform(spec)
    raw = raw_inputs.placeholders(spec)
    return ServingInputs(
        examples,
        _apart(transform.features(examples), COLUMN_SCOPES[0]),
        raw,
        _apart(transform.features_of(raw_inputs.parsed(spec, raw)), COLUMN_SCOPES[1]),
    )


def features_and_receivers(spec: FeatureSpec) -> tuple[dict[str, Any], dict[str, tf.Tensor]]:
    """Makes the serving graph's input in the current graph.

    Returns:
      The features that the model reads, and the receiver tensors that a request fills: serialized
      `tf.train.Example`s (SequenceExamples if the spec has feature lists), a string tensor [rows],
      under `examples`; the number of rows is free. Only features that a group reads are needed, so
      labels and weights are not.
    """
    examples = _examples()
    return Transform(spec).features(examples), {EXAMPLES: examples}


def _examples() -> tf.Tensor:
    return tf.compat.v1.placeholder(tf.string, [None], name="input_example_tensor")


def _apart(features: Features, name: str) -> Features:
    """The same values behind ops of their own; what ragged tensors remember is left behind."""
    with tf.name_scope(name):
        return {column: _identity(column, value) for column, value in features.items()}


def _identity(column: str, value: Any) -> Any:
    name = op_name(column)
    return tf.nest.map_structure(
        lambda part: tf.identity(part, name=name), value, expand_composites=True
    )
