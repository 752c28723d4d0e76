"""The serving end of the input: requests become what the model gathers from.

Uses the same `Transform` as training; there is no second reading of a record. `tf.estimator` is not
needed here: estimator_kit.serving_receiver wraps the result for it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from feature_specs.schema import FeatureSpec
from input_pipelines.transforms import Transform

# The receiver tensor's name, as TensorFlow's own parsing receivers call it.
EXAMPLES = "examples"


def features_and_receivers(spec: FeatureSpec) -> tuple[dict[str, Any], dict[str, tf.Tensor]]:
    """Makes the serving graph's input in the current graph.

    Returns:
      The features that the model reads, and the receiver tensors that a request fills: serialized
      `tf.train.Example`s (SequenceExamples if the spec has feature lists), a string tensor [rows],
      under `examples`; the number of rows is free. Only features that a group reads are needed, so
      labels and weights are not.
    """
    examples = tf.compat.v1.placeholder(tf.string, [None], name="input_example_tensor")
    return Transform(spec).features(examples), {EXAMPLES: examples}
