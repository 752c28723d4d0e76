"""The serving end of the input: requests become what the model gathers from.

Uses the same `Transform` as training; there is no second reading of a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from feature_specs.schema import FeatureSpec
from input_pipelines.transforms import Transform

# The receiver tensor's name, as TensorFlow's own parsing receivers call it.
EXAMPLES = "examples"


def serving_input_receiver_fn(spec: FeatureSpec) -> Callable[[], Any]:
    """A `serving_input_receiver_fn` that takes serialized `tf.train.Example`s.

    The receiver is a string tensor [rows] under `examples`; the number of rows is free. Only
    features that a group reads are needed, so labels and weights are not.
    """

    def receiver() -> Any:
        examples = tf.compat.v1.placeholder(tf.string, [None], name="input_example_tensor")
        features = Transform(spec).features(examples)
        return tf.estimator.export.ServingInputReceiver(features, {EXAMPLES: examples})

    return receiver
