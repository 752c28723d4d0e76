"""What `export_saved_model` asks for: the serving input as a `ServingInputReceiver`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_kit.compat.tf_estimator import estimator
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import features_and_receivers


def serving_input_receiver_fn(spec: FeatureSpec) -> Callable[[], Any]:
    """A `serving_input_receiver_fn` that takes serialized `tf.train.Example`s.

    Or SequenceExamples, if the spec has feature lists. The receiver is a string tensor [rows]
    under `examples`; the number of rows is free. Only features that a group reads are needed, so
    labels and weights are not.
    """

    def receiver() -> Any:
        return estimator.export.ServingInputReceiver(*features_and_receivers(spec))

    return receiver
