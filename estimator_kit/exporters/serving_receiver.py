"""The serving input as a `ServingInputReceiver`, for `Estimator.export_saved_model`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_kit.compat.tf_estimator import estimator
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import features_and_receivers


def serving_input_receiver_fn(spec: FeatureSpec) -> Callable[[], Any]:
    """Returns a `serving_input_receiver_fn` that takes serialized `tf.train.Example`s.

    If the spec has feature lists, it takes SequenceExamples. The receiver is a string tensor [rows]
    under `examples`, for any number of rows. Records need only the features that a group reads, and
    no labels or weights.
    """

    def receiver() -> Any:
        return estimator.export.ServingInputReceiver(*features_and_receivers(spec))

    return receiver
