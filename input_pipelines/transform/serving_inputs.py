"""Input of serving graphs: turns requests into the features that the model reads.

Uses the same `Transform` as training, so training and serving cannot read a record differently.
This module does not need `tf.estimator`: estimator_kit.exporters.signatures wraps the result.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.transform import raw_inputs
from input_pipelines.transform.raw_inputs import op_name as op_name
from input_pipelines.transform.transforms import Features, Transform, raw_feature

# The receiver tensor's name. TensorFlow's parsing receivers use the same one.
EXAMPLES = "examples"

# The scopes of the ops that `ServingInputs` gives the model. The ops have the names of columns.
_FEATURES, _RAW_FEATURES, _PART = "features", "raw_features", "features_of_part"


@dataclasses.dataclass(frozen=True)
class ServingInputs:
    """The two inputs of a serving graph: serialized records, and one tensor for each feature.

    Attributes:
      examples: serialized `tf.train.Example`s (SequenceExamples if the spec has feature lists), a
        string tensor [rows].
      features: the features that the model reads from `examples`. Each of its tensors is a separate
        op, and the model uses no other tensors. So they can be replaced by other tensors.
      raw: a tensor for each feature; see `raw_inputs`.
      raw_features: the features that the model would read from `raw`, with the same structure as
        `features`.
      transform: what makes the features.
    """

    examples: tf.Tensor
    features: Features
    raw: dict[str, tf.Tensor]
    raw_features: Features
    transform: Transform

    def features_of_part(self, part: FeatureSpec) -> Features:
        """The features of a part of the spec, from `examples`, like those in `features`.

        Records may lack what the part does not read.
        """
        made = self.transform.of_part(part).features(_as_rows(self.examples))
        return _apart(made, _PART)


def serving_inputs(spec: FeatureSpec) -> ServingInputs:
    """Makes both inputs in the current graph, for any number of rows."""
    examples = _examples()
    transform = Transform(spec)
    raw = raw_inputs.placeholders(spec)
    return ServingInputs(
        examples,
        _apart(transform.features(_as_rows(examples)), _FEATURES),
        raw,
        _apart(transform.features_of(raw_inputs.parsed(spec, raw)), _RAW_FEATURES),
        transform,
    )


def features_and_receivers(spec: FeatureSpec) -> tuple[dict[str, Any], dict[str, tf.Tensor]]:
    """Makes the serving graph's input in the current graph.

    Returns:
      The features that the model reads, and the receiver tensors that a request fills: `examples`,
      a string tensor [rows] of serialized `tf.train.Example`s (SequenceExamples if the spec has
      feature lists). The number of rows can vary. A request needs only features that a group reads,
      so it needs no labels or weights.
    """
    examples = _examples()
    return Transform(spec).features(_as_rows(examples)), {EXAMPLES: examples}


def _examples() -> tf.Tensor:
    return tf.compat.v1.placeholder(tf.string, [None], name="input_example_tensor")


def _as_rows(examples: tf.Tensor) -> tf.Tensor:
    """Records, checked to be a list, which servers do not do. TensorFlow would parse a scalar."""
    return tf.ensure_shape(examples, [None])


def _apart(features: Features, name: str) -> Features:
    """The same values from new identity ops. Ragged tensors lose their cached row partitions."""
    with tf.name_scope(name):
        return {column: _identity(column, value) for column, value in features.items()}


def is_column_scope(name: str) -> bool:
    """Whether the ops in a scope have the names of columns."""
    # TensorFlow adds a number to the name of a scope that exists.
    return name in (_FEATURES, _RAW_FEATURES) or name.startswith(_PART)


def column_op(column: str) -> str:
    """The name of the ops of an entry of `Features`. Only features of `raw` have a hyphen."""
    feature = raw_feature(column)
    return op_name(column) if feature is None else f"{op_name(feature)}-raw"


def _identity(column: str, value: Any) -> Any:
    name = column_op(column)
    return tf.nest.map_structure(
        lambda part: tf.identity(part, name=name), value, expand_composites=True
    )
